# SPDX-License-Identifier: Apache-2.0
"""What changed between two loads: their documents side by side. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Row", "causes", "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of both loads; None = a side does not tell it."""

    name: str
    unit: str
    """ms, bytes, share, count."""
    a: float | None
    b: float | None

    @property
    def change(self) -> float | None:
        """B less A."""
        return None if self.a is None or self.b is None else self.b - self.a


def rows(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the figures: time in all and by part, faults, bytes, what was in memory before."""
    one, other = a["load"] or {}, b["load"] or {}
    yield Row(name="time", unit="ms", a=one.get("wall_ms"), b=other.get("wall_ms"))
    parts = [{row["part"]: row["ms"] for row in load.get("time", ())} for load in (one, other)]
    for name in dict.fromkeys([*parts[0], *parts[1]]):
        yield Row(name=name, unit="ms", a=_part(parts[0], name), b=_part(parts[1], name))
    for name in ("minor_faults", "major_faults", "reads"):
        yield Row(name=name.replace("_", " "), unit="count", a=one.get(name), b=other.get(name))
    for name in ("read_bytes", "device_bytes"):
        yield Row(name=name.replace("_bytes", ""), unit="bytes", a=one.get(name), b=other.get(name))
    for name in ("blocked_share", "cached_share"):
        yield Row(name=name.replace("_", " "), unit="share", a=a["summary"][name], b=b["summary"][name])


def _part(parts: Mapping[str, float], name: str) -> float | None:
    """Return the time of a part. One that is not there took none, unless time on a processor was not told apart."""
    if name in parts or not parts:
        return parts.get(name)
    return None if name == "cpu" or (name.endswith("cpu") and "cpu" in parts) or name == "user" else 0.0


def causes(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield code and what became of it: new, gone, kept."""
    before, after = ({row["code"] for row in one["findings"]} for one in (a, b))
    for code in sorted(before | after):
        yield code, "kept" if code in before & after else "new" if code in after else "gone"
