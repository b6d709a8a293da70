# SPDX-License-Identifier: Apache-2.0
"""How the last answer of each connection arrived and ended: in how many pieces, with a closing alert, cut off or whole.

Judges nothing but that: whether a reset of the other side met an answer that was still coming.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netdiag.analysis.http_rows import blocks
from netdiag.analysis.links import Link, changed, known

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CLOSING_ALERTS", "with_answers"]

CLOSING_ALERTS = (23.0, 24.0, 31.0)
"""A closing alert in TLS 1.2 and 1.3, with the record's header (bytes)."""
_STREAM = 3
"""Pieces from which an answer is a stream."""
_PROMPT_MS = 1000.0
"""A reset within this time of part of an answer is no idle timer's: those count in seconds."""
_STREAM_MS = 5000.0
"""The same for a stream, which may stall before it breaks."""


def with_answers(links: Sequence[Link], bursts: pd.DataFrame) -> tuple[Link, ...]:
    """Return the connections with the pieces of their answers counted, and with `farewell` and `cut_off` settled."""
    counted, farewells = list(links), set[int]()
    places = {link.row: place for place, link in enumerate(links)}
    for block in blocks(bursts, "connection"):
        pieces, greeted = _received(block)
        farewells |= greeted
        for row in pieces.keys() & places.keys():
            counted[places[row]] = _counted(counted[places[row]], pieces[row])
    told = [changed(link, farewell=True) if link.row in farewells or _unread_alert(link) else link for link in counted]
    whole = _whole_sizes(told)
    return tuple(
        changed(link, cut_off=True) if _cut_off(link, whole.get((link.pid, link.remote), ())) else link for link in told
    )


_Pieces = tuple[NDArray[np.float64], NDArray[np.float64]]


def _received(bursts: pd.DataFrame) -> tuple[dict[int, _Pieces], set[int]]:
    """Return begin and end of the received bursts of each connection, and which got a closing alert of the peer."""
    if not len(bursts):
        return {}, set()
    came = (bursts["direction"] == "receive").to_numpy()
    notify = bursts["close_notify"].to_numpy().astype(bool)
    row, began, ended = (bursts[name].to_numpy() for name in ("connection", "began_ns", "ended_ns"))
    farewells = set(row[came & notify].tolist())
    mine = np.flatnonzero(came & ~notify)
    mine = mine[np.argsort(row[mine], kind="stable")]
    starts = np.flatnonzero(np.diff(row[mine], prepend=-1))
    begins, ends, until = began[mine], ended[mine], [*starts[1:].tolist(), len(mine)]
    pieces = {
        one: (begins[start:end], ends[start:end])
        for one, start, end in zip(row[mine[starts]].tolist(), starts.tolist(), until, strict=False)
    }
    return pieces, farewells


def _counted(link: Link, pieces: _Pieces) -> Link:
    """Count the reads from an answer's first byte to the next call; session tickets before it are no part of it."""
    if not link.calls:  # a handshake that came to nothing: something was read, and it was no answer
        return link
    begins, ends = pieces
    until = [*(call.began_ns for call in link.calls[1:]), math.inf]
    first = np.array([call.first_byte_ns for call in link.calls])
    counts = (np.searchsorted(begins, until, side="right") - np.searchsorted(ends, first, side="left")).tolist()
    calls = [
        replace(call, received_bursts=float(max(1, count))) if call.answered else call
        for call, count in zip(link.calls, counts, strict=True)
    ]
    return changed(link, calls=tuple(calls))


def _unread_alert(link: Link) -> bool:
    return link.encrypted is not False and link.unread in CLOSING_ALERTS


def _whole_sizes(links: Iterable[Link]) -> Mapping[tuple[float, str], set[float]]:
    """Return the sizes of answers that were whole, by program and server: the next call followed on the connection."""
    sizes: dict[tuple[float, str], set[float]] = {}
    for link in links:
        done = [call.received_bytes for call in link.calls[:-1] if call.answered and known(call.received_bytes)]
        sizes.setdefault((link.pid, link.remote), set()).update(done)
    return sizes


def _cut_off(link: Link, whole: Container[float]) -> bool:
    """The peer's reset met a request without an answer, or an answer that was still coming."""
    if link.close != "rst" or link.closed_by != "remote" or not link.calls or link.unseen:
        return False
    last = link.calls[-1]
    if not last.answered:
        return known(last.sent_ns)
    stream = last.received_bursts >= _STREAM
    if link.farewell or (not stream and last.received_bytes in whole):
        return False
    return link.idle_before_close_ms <= (_STREAM_MS if stream else _PROMPT_MS)
