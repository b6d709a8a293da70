# SPDX-License-Identifier: Apache-2.0
"""Streams that are read in crumbs, or written in records so large that their first byte waits for their last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.http_calls import Asked, examples
from netdiag.analysis.http_rows import Rows
from netdiag.analysis.links import NAN, known
from netdiag.analysis.starved import Scheduling, scheduling_of
from netdiag.analysis.stream_pieces import streams_of
from netdiag.analysis.whatif import first_token, what_if
from netdiag.findings import Finding, Learned

__all__ = ["analyze"]

_MS = 1e6
_APPLICATION_DATA = 23
_HEADER = 5
_READS = 6.0
"""Two reads a record are how OpenSSL works: header, then fragment. More than four beyond them are crumbs."""
_CPU_SHARE = 0.1
_LARGE = 8192
_EARLY = 4
_WAIT_MS = 50.0
_SLACK_NS = 1e6


def analyze(case: Case) -> list[Finding]:
    """Return one finding per code and group."""
    found: list[Seen | None] = []
    records, bursts = case.rows["records"], case.rows["bursts"]
    work = scheduling_of(case)
    for group in case.groups:
        calls = case.asked_by(group)
        streamed = [stream.call for stream in streams_of(case, calls)] if records else []
        rows = [_Streamed(call, records, bursts) for call in streamed]
        found += [_tiny(group, calls, rows, work), _large(group, calls, rows)]
    return [finding(case, seen) for seen in found if seen is not None]


class _Streamed(NamedTuple):
    """A streamed call, with the records and reads of all connections."""

    call: Asked
    records: Rows
    bursts: Rows


# --- tiny reads -------------------------------------------------------------------------------------------------------


def _tiny(group: Group, calls: Sequence[Asked], rows: Sequence[_Streamed], work: Scheduling) -> Seen | None:
    hit: list[tuple[Asked, float, float]] = []
    for call, records, bursts in rows:
        busy = work.ran_ms(call.pid, call.first_byte_ns, call.ended_ns)
        lasted = (call.ended_ns - call.first_byte_ns) / _MS
        if not (lasted > 0 and busy > _CPU_SHARE * lasted):
            continue
        row = call.link.row
        at, ended = records.part(row, "at_ns"), bursts.part(row, "ended_ns")
        count = int(np.count_nonzero(_answers(call, records) & (at <= call.ended_ns)))
        mine = bursts.received(row) & (ended >= call.first_byte_ns - _SLACK_NS) & (ended <= call.ended_ns + _SLACK_NS)
        reads = float(bursts.part(row, "calls")[mine].sum())
        if count >= 10 and reads / count > _READS:
            hit.append((call, reads / count, busy / lasted))
    if len(hit) < 3:
        return None
    each = [reads for _, reads, _ in hit]
    saved = {call.row: call.reader_lag_ms for call, _, _ in hit if known(call.reader_lag_ms)}
    return Seen(
        code="stream.tiny-reads",
        links=tuple({call.link.row: call.link for call, _, _ in hit}.values()),
        count=len(hit),
        of=len(rows),
        confidence=0.7,
        cost_ms=float(sum(saved.values())) if saved else NAN,
        what_if=what_if(calls, saved),
        note=f"the program ran for {100 * median(share for _, _, share in hit):.0f} % of the streams' time",
        learned=Learned(name="reads_a_record", value=median(each), low=min(each), high=max(each), unit="reads"),
        calls=len(calls),
        words={"each": f"{median(each):.0f}"},
        examples=examples((call, f"{reads:.0f} reads a TLS record") for call, reads, _ in hit),
        host=group.host,
        process=group.process,
    )


def _answers(call: Asked, records: Rows) -> NDArray[np.bool_]:
    """Tell which records of its connection hold data that came since the answer began."""
    row = call.link.row
    data = records.received(row) & (records.part(row, "type") == _APPLICATION_DATA)
    began: NDArray[np.bool_] = data & (records.part(row, "at_ns") >= call.first_byte_ns)
    return began


# --- large records ----------------------------------------------------------------------------------------------------


def _large(group: Group, calls: Sequence[Asked], rows: Sequence[_Streamed]) -> Seen | None:
    """The first record of an answer is large, and its last byte came long after its first."""
    hit: list[tuple[Asked, float, float]] = []
    for call, records, bursts in rows:
        wait, size = _first_record(call, records, bursts)
        if size >= _LARGE and wait >= _WAIT_MS:
            hit.append((call, wait, size))
    if len(hit) < 2:
        return None
    waits, sizes = [wait for _, wait, _ in hit], [size for _, _, size in hit]
    waited = {call.row: wait for call, wait, _ in hit}
    return Seen(
        code="stream.large-record",
        links=tuple({call.link.row: call.link for call, _, _ in hit}.values()),
        count=len(hit),
        of=len(rows),
        confidence=0.8,
        cost_ms=sum(waits),
        learned=Learned(name="record", value=median(sizes), low=min(sizes), high=max(sizes), unit="bytes"),
        what_if=what_if([call for call, _, _ in hit], waited, _readable(waited)),
        calls=len(calls),
        words={"wait": milliseconds(median(waits))},
        examples=examples(
            (call, f"a record of {size:,.0f} bytes was whole {milliseconds(wait)} after it began")
            for call, wait, size in hit
        ),
        host=group.host,
        process=group.process,
    )


def _readable(waited: Mapping[int, float]) -> Callable[[Asked], float]:
    """Return when the first token can be read: the arrival of a record is that of its header."""

    def first_token_read(call: Asked) -> float:
        return first_token(call) + waited.get(call.row, 0.0)

    return first_token_read


def _first_record(call: Asked, records: Rows, bursts: Rows) -> tuple[float, float]:
    """Return how long the first large record of the answer took to arrive (ms), and its size; NaN where there is none.

    It is one of the first few: the head of the answer and the size of its first chunk may have records of their own.
    Its end is where the bytes that the program had read reach it: both count the same bytes of the connection. How long
    they had lain there unread is none of the record's time.
    """
    row = call.link.row
    length = records.part(row, "length") + _HEADER
    early = np.flatnonzero(_answers(call, records))[:_EARLY]
    index = next((i for i in early.tolist() if length[i] >= _LARGE), -1)
    if index < 0:
        return NAN, NAN
    end = float(length[: index + 1][records.received(row)[: index + 1]].sum())
    mine = bursts.received(row)
    ended, size, lag = (bursts.part(row, name)[mine] for name in ("ended_ns", "bytes", "max_lag_ms"))
    order = np.lexsort((size, ended))
    at = int(np.searchsorted(np.cumsum(size[order]), end))
    if at >= len(order):
        return NAN, float(length[index])
    unread = float(np.nan_to_num(lag[order[at]]))
    return float(ended[order[at]] - records.part(row, "at_ns")[index]) / _MS - unread, float(length[index])
