# SPDX-License-Identifier: Apache-2.0
"""How things look: glyphs, colours by meaning, figures in as few cells as they need. Pure.

`plain` draws with letters and blanks alone, for screen readers and terminals without Unicode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from netdiag.units import UNKNOWN, format_count, format_ms

__all__ = [
    "FANCY",
    "LETTERS",
    "PART_LETTERS",
    "PART_NAMES",
    "PART_STYLES",
    "PLAIN",
    "SEVERITY_STYLES",
    "Glyphs",
    "count",
    "folded",
    "ms",
    "rate",
    "share",
    "spark",
]

SEVERITY_STYLES: Final[Mapping[str, str]] = {"critical": "bold red", "warning": "bold yellow", "info": "cyan"}

PART_NAMES: Final[Mapping[str, str]] = {
    "dns": "look-up",
    "connect": "connect",
    "client_setup": "set-up",
    "tls": "TLS",
    "queue": "queue",
    "send": "send",
    "wait": "server",
    "receive": "receive",
    "reader_lag": "read late",
    "unattributed": "unknown",
}
PART_STYLES: Final[Mapping[str, str]] = {
    "dns": "cyan",
    "connect": "yellow",
    "client_setup": "bright_magenta",
    "tls": "magenta",
    "queue": "bright_black",
    "send": "bright_blue",
    "wait": "green",
    "receive": "blue",
    "reader_lag": "red",
    "unattributed": "bright_black",
}
PART_LETTERS: Final[Mapping[str, str]] = dict(zip(PART_NAMES, "DCXTQSWRL?", strict=True))
"""What stands for each part in plain mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """Signs that differ with the mode."""

    plain: bool
    bars: str
    """From lowest to highest."""
    block: str
    arrow: str
    stall: str
    tick: str
    mark: str
    """Before what is new."""


FANCY: Final = Glyphs(plain=False, bars="▁▂▃▄▅▆▇█", block="█", arrow="→", stall="▒", tick="│", mark="●")
LETTERS: Final = replace(FANCY, plain=True)
"""Where there are no colours: letters stand for the parts."""
PLAIN: Final = Glyphs(plain=True, bars="._-~=+*#", block="#", arrow="->", stall="!", tick="'", mark="*")


def spark(values: Sequence[float | None], width: int, glyphs: Glyphs) -> str:
    """Return a sparkline of the newest `width` values; a blank where there is none, the lowest sign for 0."""
    shown = values[-width:] if width > 0 else ()
    most = max((one for one in shown if one is not None), default=0.0)
    top = len(glyphs.bars) - 1
    drawn = [
        " " if one is None else glyphs.bars[0 if most <= 0 or one <= 0 else max(1, round(one / most * top))]
        for one in shown
    ]
    return "".join(drawn).rjust(width)


def folded(values: Sequence[float | None], width: int) -> tuple[float | None, ...]:
    """Return all values in at most `width` steps, the highest of each; for what has an end and is to be seen whole."""
    if len(values) <= width or width <= 0:
        return tuple(values)
    edges = [len(values) * step // width for step in range(width + 1)]
    groups = ([one for one in values[low:high] if one is not None] for low, high in pairwise(edges))
    return tuple(max(group, default=None) for group in groups)


def ms(value: float | None) -> str:
    """Return a duration in at most seven cells."""
    return format_ms(value)


def count(value: float | None) -> str:
    """Return a whole number in at most six cells."""
    if value is not None and value >= 1e6:
        return f"{value / 1e6:.1f}M" if value < 1e8 else f"{value / 1e6:,.0f}M"
    if value is not None and value >= 99_999.5:
        return f"{value / 1e3:.0f}k"
    return format_count(value)


def rate(value: float | None) -> str:
    """Return a number a second in at most six cells."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def share(value: float | None) -> str:
    """Return a share as per cent; what is missing never rounds to all, what is there never to nothing."""
    if value is None:
        return UNKNOWN
    if 0 < value < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < value < 1 else f"{100 * value:.0f} %"
