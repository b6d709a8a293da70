# SPDX-License-Identifier: Apache-2.0
"""Durations, sizes and rates as short text, and back. Unknown stays unknown: it is shown as `–`, never as 0."""

from __future__ import annotations

import math
import re

__all__ = [
    "UNKNOWN",
    "format_bytes",
    "format_count",
    "format_ms",
    "format_ns",
    "format_percent",
    "format_rate",
    "parse_bytes",
    "parse_seconds",
    "unit_of_type",
]

UNKNOWN = "–"
"""What stands for a value that is not known."""

_TYPE_UNITS = {
    "nd_ktime_ns": "instant",
    "nd_duration_ns": "ns",
    "nd_micros": "us",
    "nd_jiffies": "jiffies",
    "nd_bytes": "bytes",
    "nd_cookie": "id",
    "nd_cgroup": "id",
    "nd_netns": "id",
    "nd_pid": "id",
    "nd_tid": "id",
    "nd_errno": "errno",
    "nd_port": "port",
    "nd_family": "enum",
    "nd_addr": "address",
    "char": "text",
}
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "m": 60.0, "h": 3600.0}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]*)\s*")


def unit_of_type(name: str) -> str:
    """Return the unit that a semantic C type carries, one of `manifest.UNITS`; `count` for a bare number."""
    return _TYPE_UNITS.get(name, "count")


def format_ms(value: float | None) -> str:
    """Return milliseconds as `1.24 s`, `447 ms`, `0.4 ms` or `40 µs`; `–` for None and NaN."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if 0 < size < 0.0995:
        return f"{value * 1e3:.3g} µs"
    if size >= 999.5:
        return _format_seconds(value / 1e3)
    if size < 0.995:
        return f"{value:.2g} ms"
    return f"{value:.1f} ms" if size < 9.95 else f"{value:.0f} ms"


def _format_seconds(value: float) -> str:
    size = abs(value)
    if size < 9.995:
        return f"{value:.2f} s"
    if size < 99.95:
        return f"{value:.1f} s"
    if size < 7200:
        return f"{value:.0f} s"
    return f"{value / 3600:.1f} h"


def format_ns(value: float | None) -> str:
    """Return nanoseconds in the words of `format_ms`."""
    return format_ms(None if value is None else value / 1e6)


def format_bytes(value: float | None) -> str:
    """Return bytes in decimal units, three digits: `512 B`, `1.50 kB`, `3.38 GB`; `–` for None and NaN."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    unit, amount = 0, value
    while abs(amount) >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        unit, amount = unit + 1, amount / 1000
    if unit == 0:
        return f"{amount:.0f} B"
    size = abs(amount)
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{amount:.{digits}f} {_BYTE_UNITS[unit]}"


def format_rate(value: float | None) -> str:
    """Return bytes per second, `280 MB/s`; `–` for None and NaN."""
    text = format_bytes(value)
    return text if text == UNKNOWN else f"{text}/s"


def format_count(value: float | None) -> str:
    """Return a whole number with thousands apart, `102,997`; `–` for None and NaN."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:,.0f}"


def format_percent(share: float | None) -> str:
    """Return a share of 1 as `12 %`, `4.1 %` below ten; `–` for None and NaN."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    percent = share * 100
    return f"{percent:.1f} %" if 0 < abs(percent) < 9.95 else f"{percent:.0f} %"


def parse_seconds(text: str) -> float:
    """Read `1.5`, `1.5s`, `200ms`, `2min` or `1h` as seconds; ValueError says what is allowed."""
    number, unit = _parse(text)
    if unit not in _SECONDS:
        raise ValueError(f"'{text}' is no duration: write 10, 1.5s, 200ms, 2min or 1h")
    return number * _SECONDS[unit]


def parse_bytes(text: str) -> int:
    """Read `512`, `64kB`, `64MB` (decimal) or `64MiB` (binary) as bytes; ValueError says what is allowed."""
    number, unit = _parse(text)
    match = re.fullmatch(r"([kmgt]?)(i?)b?", unit.lower())
    if match is None or (match[2] and not match[1]):
        raise ValueError(f"'{text}' is no size: write 512, 64kB, 64MB or 64MiB")
    power = " kmgt".index(match[1]) if match[1] else 0
    base = 1024 if match[2] else 1000
    return round(number * float(base**power))


def _parse(text: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text)
    return (float(match[1]), match[2]) if match else (math.nan, "?")
