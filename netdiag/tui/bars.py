# SPDX-License-Identifier: Apache-2.0
"""Bars of the waterfall: which part of a request each cell of a line stands for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from netdiag.tui.columns import PARTS, Calls
from netdiag.tui.look import PART_LETTERS, PART_STYLES, Glyphs
from netdiag.tui.model import Examination

__all__ = ["BLAME_STYLES", "Extent", "Pieces", "bar", "pieces_of", "ruler"]

BLAME_STYLES: Mapping[str, str] = {"server": "bold yellow", "network": "bold magenta", "reader": "bold red"}
"""Whose fault a stall is → colour; unknown = grey."""
_BLAME_LETTERS = {"server": "s", "network": "n", "reader": "r"}
_ORDER = tuple(PARTS.index(name) for name in PARTS if name != "unattributed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The stretch of time that a line shows, nanoseconds."""

    start: float
    end: float

    def cell(self, at: float, width: int) -> float:
        """Return where an instant lies, in cells."""
        return (at - self.start) / max(self.end - self.start, 1.0) * width


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """What came of a streamed answer: instants of its chunks, and its stalls (start, end, blame)."""

    chunks: Sequence[float] = ()
    stalls: Sequence[tuple[float, float, str]] = field(default=())


def pieces_of(examination: Examination | None, row: int) -> Pieces:
    """Return what came of a request's answer; nothing where it was not examined."""
    if examination is None or row < 0:
        return Pieces()
    tables = examination.tables
    chunks = tables.chunks
    of = chunks["request"].to_numpy()
    low, high = np.searchsorted(of, row), np.searchsorted(of, row, side="right")
    part = chunks.iloc[low:high]
    at = part["at_ns"].fillna(part["read_ns"]).to_numpy()
    sent = float(tables.requests["sent_ns"].to_numpy()[row])
    stalls = []
    for stall in examination.stalls.get(row, ()):
        begin, gap = stall.get("at_ms"), stall.get("gap_ms")
        if isinstance(begin, int | float) and isinstance(gap, int | float) and not np.isnan(sent):
            first = sent + begin * 1e6
            stalls.append((first, first + gap * 1e6, str(stall.get("blame") or "unknown")))
    return Pieces(chunks=tuple(at[~np.isnan(at)].tolist()), stalls=tuple(stalls))


def bar(
    calls: Calls, at: int, extent: Extent, width: int, glyphs: Glyphs, pieces: Pieces
) -> tuple[tuple[str, str], ...]:
    """Return runs of text and style, `width` cells together; the parts in the order in which they pass."""
    signs = [(" ", "")] * width
    began, total = float(calls.began_ns[at]), float(calls.total_ms[at])
    start, last = began, None
    for part in _ORDER:
        length = float(calls.parts[at, part])
        if np.isnan(length) or length <= 0:
            continue
        name = PARTS[part]
        sign = PART_LETTERS[name] if glyphs.plain else glyphs.block
        last = _paint(signs, extent, start, start + length * 1e6, (sign, PART_STYLES[name])) or last
        start += length * 1e6
    if last is None and not np.isnan(began):  # nothing but its beginning is known
        _paint(signs, extent, began, began + (0 if np.isnan(total) else total) * 1e6, (glyphs.block, "bright_black"))
    for instant in pieces.chunks:
        _tick(signs, extent, instant, glyphs)
    for begin, end, blame in pieces.stalls:
        sign = _BLAME_LETTERS.get(blame, glyphs.stall) if glyphs.plain else glyphs.stall
        _paint(signs, extent, begin, end, (sign, BLAME_STYLES.get(blame, "bright_black")))
    return _joined(signs)


def ruler(extent: Extent, width: int, base: float = 0.0) -> str:
    """Return a line of times for the head of the column: as many as there is room for."""
    from netdiag.units import format_ms

    line = [" "] * width
    steps = max(1, width // 16)
    for step in range(steps):
        text = format_ms((extent.start - base + (extent.end - extent.start) * step / steps) / 1e6)
        at = round(width * step / steps)
        line[at : at + len(text)] = text
    return "".join(line)[:width]


def _paint(signs: list[tuple[str, str]], extent: Extent, start: float, end: float, sign: tuple[str, str]) -> int | None:
    """Fill the cells from start to end, one at least where it is in sight."""
    width = len(signs)
    low, high = extent.cell(start, width), extent.cell(end, width)
    if high < 0 or low >= width or width == 0:
        return None
    first = max(0, int(low))
    last = min(width, max(first + 1, round(high)))
    signs[first:last] = [sign] * (last - first)
    return last


def _tick(signs: list[tuple[str, str]], extent: Extent, at: float, glyphs: Glyphs) -> None:
    cell = int(extent.cell(at, len(signs)))
    if 0 <= cell < len(signs):
        signs[cell] = (glyphs.tick, "bright_white on blue")


def _joined(signs: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    runs: list[tuple[str, str]] = []
    for sign, style in signs:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + sign, style)
        else:
            runs.append((sign, style))
    return tuple(runs)
