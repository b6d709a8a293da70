# SPDX-License-Identifier: Apache-2.0
"""Geometry of handshakes as ladders: what went to and fro, and whose time each step took. Pure numbers and words.

Handshakes of one kind (other end, version, full or resumed, retried or not, outcome) are one ladder: the median one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netdiag.render import words
from netdiag.text import safe
from netdiag.units import format_bytes, format_count, format_ms

__all__ = ["MAX_LADDERS", "Ladder", "Step", "draw"]

MAX_LADDERS = 6
_STEP_PX = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An arrow from one side to the other."""

    y: float
    to_server: bool
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """One kind of handshake."""

    title: str
    steps: tuple[Step, ...]
    height: float
    times: tuple[tuple[str, str], ...]
    """Whose time, and how much of it."""
    words: str
    """The whole in a sentence, for those who do not see the picture."""


def draw(document: Mapping[str, Any]) -> list[Ladder]:
    """Return a ladder for each of the most frequent kinds."""
    ends = {row["id"]: words.endpoint(row["remote"]) for row in document["connections"]}
    kinds: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in document["handshakes"]:
        host = row["sni"] or ends.get(row["connection"] or "", "unknown")
        key = (host, row["version"], row["resumed"], row["hello_retry"], row["outcome"], row["early_data"])
        kinds.setdefault(key, []).append(row)
    most = sorted(kinds.items(), key=lambda item: -len(item[1]))[:MAX_LADDERS]
    return [_ladder(str(key[0]), rows) for key, rows in most]


def _ladder(host: str, rows: Sequence[Mapping[str, Any]]) -> Ladder:
    timed = sorted((row for row in rows if row["duration_ms"] is not None), key=lambda row: row["duration_ms"])
    row = timed[len(timed) // 2] if timed else rows[0]
    arrows = _arrows(row)
    steps = tuple(
        Step(y=34.0 + _STEP_PX * number, to_server=to_server, label=label)
        for number, (to_server, label) in enumerate(arrows)
    )
    version = safe(row["version"] or "unknown version")
    kind = {True: "resumed", False: "full", None: "resumption unknown"}[row["resumed"]]
    title = f"{safe(host)}: {version}, {kind}, {row['outcome'] or 'outcome unknown'} · {format_count(len(rows))} ×"
    times = [
        (name, format_ms(row[member]))
        for name, member in (
            ("network", "network_ms"),
            ("server", "server_ms"),
            ("client", "client_ms"),
            ("whole", "duration_ms"),
        )
    ]
    told = "; ".join(f"{'to' if to_server else 'from'} the server: {label}" for to_server, label in arrows)
    return Ladder(
        title=title, steps=steps, height=44.0 + _STEP_PX * len(steps), times=tuple(times), words=f"{title}. {told}"
    )


def _arrows(row: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """Return what passed, as far as it is known: (towards the server, words)."""
    hello = "ClientHello" + _size(row["client_hello_bytes"])
    offers = {"psk": "offers a session", "ticket": "offers a ticket", "session_id": "offers a session id"}
    if row["offered"] in offers:
        hello += f", {offers[row['offered']]}"
    if row["early_data"] in {"accepted", "refused", "offered"}:
        hello += f", early data ({row['early_data']})"
    found = [(True, hello)]
    if row["hello_retry"]:
        found += [(False, "HelloRetryRequest"), (True, "ClientHello again")]
    if row["version"] is None:
        return found + ([(False, f"alert {safe(row['alert'])}")] if row["alert"] else [])
    flight = "ServerHello" + ("" if row["resumed"] else " … certificate")
    if row["certificate_count"]:
        flight += f" ({format_count(row['certificate_count'])} in the chain)"
    found.append((False, flight + _size(row["server_flight_bytes"])))
    if row["outcome"] == "completed":
        if row["version"] != "TLSv1.3" and not row["resumed"]:
            found += [(True, "key exchange, Finished"), (False, "Finished")]
        else:
            found.append((True, "Finished"))
    if row["alert"]:
        found.append((False, f"alert {safe(row['alert'])}"))
    if row["tickets_issued"]:
        found.append((False, f"{words.plural(row['tickets_issued'], 'session ticket')}"))
    return found


def _size(value: int | None) -> str:
    return "" if value is None else f", {format_bytes(value)}"
