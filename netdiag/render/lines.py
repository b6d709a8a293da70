# SPDX-License-Identifier: Apache-2.0
"""Live lines: one for each connection that ended, while the recording still grows. Pure: records in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from netdiag.addresses import endpoint, to_text
from netdiag.recording.reader import Recording
from netdiag.text import cut_middle, fit, safe
from netdiag.units import UNKNOWN, format_bytes, format_ns

__all__ = ["HEAD", "lines"]

_FAILED, _CLOSED = 2, 3  # enum nd_tcp_kind
_MAX_LINES = 200
"""Of one part of a recording, which is a fifth of a second: more can't be read and would slow the terminal down."""

_SIDES = {1: "local", 2: "remote"}
_CLOSES = {1: "FIN", 2: "RST", 3: "timeout"}
_ERRNO = {
    0: "cancelled",
    101: "no network",
    104: "reset",
    110: "timed out",
    111: "refused",
    113: "no route",
}
"""Errors of a failed connect by Linux' numbers, which the records hold wherever they are read."""

_WIDTHS = (8, 14, 21, 10, 7, 7, 7)
_TAIL = 12
"""Of a long address the last letters say most: the end of the address, and the port."""
_RIGHT = (True, False, False, False, True, True, True)


def _row(*texts: str) -> str:
    parts = (fit(text, width, right=right) for text, width, right in zip(texts, _WIDTHS, _RIGHT, strict=True))
    return " ".join(parts).rstrip()


HEAD = _row("time s", "process", "remote", "ended by", "connect", "sent", "rec'd")
"""The line above the first one."""


def lines(part: Recording) -> Iterator[str]:
    """Yield a line of at most 80 cells for each connection that ended in this part of a recording."""
    left = _MAX_LINES
    more = 0
    for run in part.runs.get("tcp", []):
        ended = run[np.isin(run["kind"], (_FAILED, _CLOSED))]
        yield from (_line(record, part.start_ns) for record in ended[:left])
        more += max(0, len(ended) - left)
        left = max(0, left - len(ended))
    if more:
        yield f"{'':8} and {more:,} more at once"


def _line(record: Any, start_ns: int) -> str:
    at_s = (int(record["time"]) - start_ns) / 1e9
    pid = f"[{int(record['tgid'])}]"
    remote = endpoint(to_text(bytes(record["daddr"])), int(record["dport"]))
    return _row(
        f"{at_s:.2f}",
        cut_middle(f"{safe(bytes(record['comm']))}{pid}", _WIDTHS[1], tail=len(pid)),
        cut_middle(remote or UNKNOWN, _WIDTHS[2], tail=_TAIL),
        _ending(record),
        _connect(record),
        format_bytes(int(record["bytes_sent"])),
        format_bytes(int(record["bytes_received"])),
    )


def _ending(record: Any) -> str:
    if int(record["kind"]) == _FAILED:
        number = int(record["error"])
        return _ERRNO.get(number, f"error {number}")
    how = _CLOSES.get(int(record["close"]), "")
    side = _SIDES.get(int(record["closed_by"]), "")
    return how if how == "timeout" else " ".join(part for part in (side, how) if part) or UNKNOWN


def _connect(record: Any) -> str:
    opened, established = int(record["opened"]), int(record["established"])
    return format_ns(established - opened) if opened and established else UNKNOWN
