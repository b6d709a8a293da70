# SPDX-License-Identifier: Apache-2.0
"""The simulation of a retry policy as text: one line a second or a few, with a bar of attempts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from netdiag.analysis.retry_simulation import Curve, Second

__all__ = ["as_json", "text"]

_LINES = 30
_BAR = 28
_STATES = ((0.999, "closed 100 %"), (0.001, "half open"), (-1.0, "open 0 %"))


def text(curve: Curve) -> str:
    """Return head, curve and summary, at most 80 columns wide."""
    policy, load = curve.policy, curve.load
    outage = f"{load.outage_s[0]:g} to {load.outage_s[1]:g} s"
    pauses = ", ".join(f"{policy.pause_s(n):.3g}" for n in range(1, min(policy.attempts, 6)))
    lines = [
        f"policy   {policy.attempts} attempts, pauses {pauses or 'none'} s, jitter {policy.jitter}"
        + (f", budget {policy.budget:.0%}" if policy.budget is not None else "")
        + (", breaker" if policy.breaker else ""),
        f"load     {load.calls_per_s:g} calls/s, capacity {load.capacity_per_s:g}/s, outage from {outage}",
        "",
        f"{'s':>5} {'attempts/s':>11} {'':{_BAR}} {'succeed':>8}" + ("  breaker" if policy.breaker else ""),
    ]
    step = max(1, -(-len(curve.seconds) // _LINES))
    most = max(second.attempts for second in curve.seconds) or 1.0
    lines += [_line(curve.seconds[at : at + step], most, curve) for at in range(0, len(curve.seconds), step)]
    return "\n".join([*lines, "", *_summary(curve)]) + "\n"


def _line(part: tuple[Second, ...], most: float, curve: Curve) -> str:
    attempts = sum(second.attempts for second in part) / len(part)
    share = sum(second.succeeded for second in part) / sum(second.calls for second in part)
    bar = "█" * round(_BAR * attempts / most)
    line = f"{part[0].at_s:>5} {attempts:>11.0f} {bar:<{_BAR}} {share:>7.0%} "
    if curve.policy.breaker:
        passes = min(second.passes for second in part)
        name = next(name for least, name in _STATES if passes > least)
        line += f"  {name}" + (f" {100 * passes:.0f} %" if name == "half open" else "")
    return line.rstrip()


def _summary(curve: Curve) -> list[str]:
    back = "not in this time" if curve.recovered_s is None else f"{curve.recovered_s:.0f} s after the outage"
    return [
        f"attempts a call  {curve.amplification:.2f}, at the worst {curve.peak:.1f} times the calls of that second",
        f"recovered        {back}",
        f"calls given up   {curve.failed_share:.1%}",
    ]


def as_json(curve: Curve) -> dict[str, Any]:
    """Return the same as plain values."""
    return asdict(curve)
