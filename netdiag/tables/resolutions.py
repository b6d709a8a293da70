# SPDX-License-Identifier: Apache-2.0
"""Look-ups of names: those of the C library, and questions with their answers on the wire. Pure.

A question that is asked again because nobody answered is one row with several attempts, and so is one whose answer did
not fit into a datagram and that was asked again over TCP. Rows of the wire that a call of the C library made carry the
row number of that call in `part_of`.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from netdiag.tables.columns import Columns
from netdiag.tables.messages import Passed, passed
from netdiag.tables.schema import frame

__all__ = ["looks_numeric", "resolutions"]

_NAN = math.nan
_LIKE_A_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]+|[0-9]+)){0,3}\.?")
"""What inet_aton() takes for an address, `127.1` and `0x7f000001` included."""
_FAMILIES = {0: "A+AAAA", 2: "A", 10: "AAAA"}
_BY_ADDRESS = frozenset({2, 3})
"""Of `enum nd_lookup_kind`: the name of an address was sought."""
_EAI = {
    -1: "EAI_BADFLAGS",
    -2: "EAI_NONAME",
    -3: "EAI_AGAIN",
    -4: "EAI_FAIL",
    -5: "EAI_NODATA",
    -6: "EAI_FAMILY",
    -7: "EAI_SOCKTYPE",
    -8: "EAI_SERVICE",
    -9: "EAI_ADDRFAMILY",
    -10: "EAI_MEMORY",
    -11: "EAI_SYSTEM",
    -12: "EAI_OVERFLOW",
}
"""netdb.h of glibc; musl has the same numbers for those it has."""
_AGAIN_NS = 0.9e9
"""No resolver asks again sooner with another number; two that ask at once are two look-ups."""
_OVER_TCP_NS = 2e9
_GIVEN_UP_NS = 1e9
"""A question without an answer for so long, at the end of the trace, failed."""
_SLACK_NS = 1e6
_ADDRESSES = 8


@dataclass(slots=True)
class _Row:
    """One row in the making; columns under their names."""

    pid: float
    tid: float
    name: str
    qtype: str
    source: str
    started_ns: float
    ended_ns: float = _NAN
    answers: list[str] = field(default_factory=list)
    error: str | None = None
    server: str | None = None
    transport: str | None = None
    ttl_s: float = _NAN
    truncated: bool | None = None
    attempts: float = _NAN
    part_of: float = _NAN
    last_ns: float = _NAN
    """When it was last asked."""
    asked: set[tuple[int, int]] = field(default_factory=set)
    """Socket and number of each question."""


def looks_numeric(name: str) -> bool:
    """Tell whether a name is an address in text: then nothing is looked up."""
    if _LIKE_A_NUMBER.fullmatch(name):
        return True
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def resolutions(lookups: Columns | None, messages: Columns | None, end_ns: float) -> pd.DataFrame:
    """Return the table by time; `end_ns` is the end of the trace."""
    calls = [] if lookups is None else _calls(lookups)
    asked = [] if messages is None else _questions(passed(messages), end_ns)
    rows = sorted([*calls, *asked], key=lambda row: (row.started_ns, row.source))
    _join(rows)
    columns: dict[str, Any] = {
        name: [getattr(row, name) for row in rows]
        for name in (
            "pid", "tid", "name", "qtype", "source", "started_ns", "answers", "error", "server", "transport", "ttl_s",
            "truncated", "attempts", "part_of",
        )
    }  # fmt: skip
    columns["id"] = [f"n{number + 1}" for number in range(len(rows))]
    columns["duration_ms"] = [(row.ended_ns - row.started_ns) / 1e6 for row in rows]
    return frame("resolutions", len(rows), columns)


# --- calls into the C library -------------------------------------------------------------------------------------


def _calls(lookups: Columns) -> list[_Row]:
    counts = lookups.integers("count").tolist()
    addresses = list(zip(*(lookups.address(f"address_{number + 1}") for number in range(_ADDRESSES)), strict=True))
    cells = zip(
        lookups.known("tgid").tolist(),
        lookups.known("tid").tolist(),
        lookups.text("name"),
        lookups.integers("kind").tolist(),
        lookups.integers("family").tolist(),
        lookups.instant("started").tolist(),
        lookups.instant("time").tolist(),
        lookups.integers("ok").tolist(),
        lookups.integers("result").tolist(),
        strict=True,
    )
    rows: list[_Row] = []
    for number, (pid, tid, name, kind, family, started, ended, ok, result) in enumerate(cells):
        there = [address for address in addresses[number][: counts[number]] if address is not None]
        reverse = kind in _BY_ADDRESS
        sought = (there[0] if there else None) if reverse else name
        if sought is None or (not reverse and looks_numeric(sought)):
            continue
        rows.append(
            _Row(
                pid=pid,
                tid=tid,
                name=sought if reverse else sought.lower().removesuffix("."),
                qtype="PTR" if reverse else _FAMILIES.get(family, "A+AAAA"),
                source="libc",
                started_ns=started,
                ended_ns=ended,
                answers=[] if reverse else list(dict.fromkeys(there)),
                error=None if ok else _EAI.get(result, "failed"),
            )
        )
    return rows


# --- on the wire --------------------------------------------------------------------------------------------------


def _questions(messages: Sequence[Passed], end_ns: float) -> list[_Row]:
    rows: list[_Row] = []
    waiting: dict[tuple[float, str, str], list[_Row]] = {}
    for one in messages:
        question = one.message.questions[0]
        pid = one.pid if not math.isnan(one.pid) else -1.0
        same = waiting.setdefault((pid, question.name, question.qtype), [])
        if one.sent:
            row = next((row for row in same if _asks_again(row, one)), None)
            if row is None:
                row = _Row(
                    pid=one.pid,
                    tid=one.tid,
                    name=question.name,
                    qtype=question.qtype,
                    source="wire",
                    started_ns=one.at_ns,
                    truncated=False,
                    attempts=0.0,
                )
                rows.append(row)
                same.append(row)
            row.asked.add((one.cookie, one.message.id))
            row.last_ns = one.at_ns
            if row.transport == "udp" and one.transport == "tcp":
                row.truncated = True  # its own answer was cut, or that about the other family: the same attempt
            else:
                row.attempts += 1
            row.server, row.transport = one.server, one.transport
        else:
            row = next((row for row in same if (one.cookie, one.message.id) in row.asked), None)
            if row is not None and _answered(row, one):
                same.remove(row)
    for row in rows:
        if math.isnan(row.ended_ns) and (row.attempts > 1 or end_ns - row.last_ns > _GIVEN_UP_NS):
            row.error = "timeout"
    return rows


def _asks_again(row: _Row, one: Passed) -> bool:
    """Tell whether a question continues an unanswered one: repeated as it was, asked anew after a pause, or by TCP."""
    pause = one.at_ns - row.last_ns
    if row.truncated is True:
        return one.transport == "tcp" and pause <= _OVER_TCP_NS
    return any(number == one.message.id for _, number in row.asked) or pause >= _AGAIN_NS


def _answered(row: _Row, one: Passed) -> bool:
    """Take an answer; returns whether it was the last word."""
    message = one.message
    row.ended_ns = one.at_ns
    row.server, row.transport = one.server, one.transport
    row.error = message.error
    row.answers = list(dict.fromkeys(message.addresses))
    row.ttl_s = _NAN if message.ttl_s is None else float(message.ttl_s)
    if message.truncated and one.transport == "udp":
        row.truncated = True
        return False
    return True


# --- together -----------------------------------------------------------------------------------------------------


def _join(rows: Sequence[_Row]) -> None:
    """Note which questions a call of the C library made: of its thread, while it ran."""
    running: dict[tuple[float, float], tuple[int, _Row]] = {}
    parts: dict[int, list[_Row]] = {}
    for number, row in enumerate(rows):
        if row.source == "libc":
            running[row.pid, row.tid] = (number, row)
            continue
        call = running.get((row.pid, row.tid))
        if call is not None and row.started_ns <= call[1].ended_ns + _SLACK_NS:
            row.part_of = float(call[0])
            parts.setdefault(call[0], []).append(row)
    for number, own in parts.items():
        _tell(rows[number], own)


def _tell(call: _Row, parts: Sequence[_Row]) -> None:
    """Let a call say what only its messages show."""
    good = [part for part in parts if part.answers] or parts
    call.server, call.transport = good[-1].server, good[-1].transport
    call.ttl_s = min((part.ttl_s for part in good if not math.isnan(part.ttl_s)), default=_NAN)
    call.truncated = any(part.truncated for part in parts)
    call.attempts = max(part.attempts for part in parts)
    if call.error in ("EAI_AGAIN", "EAI_NONAME", "failed"):
        told = [part.error for part in parts if part.error]
        call.error = told[-1] if told else call.error
