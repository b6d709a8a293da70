# SPDX-License-Identifier: Apache-2.0
"""How much a cause costs and how loud it is said: the rules that every analysis shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netdiag.analysis.links import NAN, Link, known
from netdiag.findings import Severity

__all__ = ["grade", "setup_cost", "successors"]

_CRITICAL_SHARE = 0.20
_WARNING_SHARE = 0.02
_WARNING_PER_CALL_MS = 5.0


def successors(lost: Iterable[Link], group: Sequence[Link]) -> list[Link]:
    """Return the connections that had to be opened because the lost ones were gone.

    Each lost connection pays for at most one that was opened after its end; one that
    carried no request paid for none.
    """
    ends = sorted(link.closing_ns for link in lost if known(link.closing_ns))
    made: list[Link] = []
    for link in sorted((link for link in group if known(link.opened_ns)), key=lambda link: (link.opened_ns, link.row)):
        if len(made) < len(ends) and ends[len(made)] <= link.opened_ns and link.used:
            made.append(link)
    return made


def setup_cost(links: Iterable[Link]) -> float:
    """Return the sum of the set-up times, milliseconds; NaN when none was measured."""
    times = [link.setup_ms for link in links if known(link.setup_ms)]
    return float(sum(times)) if times else NAN


def grade(*, cost_ms: float, total_ms: float, calls: float, structural: bool = False, breaks: bool = False) -> Severity:
    """Return how loud a finding is, by the share of request time that it costs."""
    share = cost_ms / total_ms if known(cost_ms) and known(total_ms) and total_ms > 0 else NAN
    if share > _CRITICAL_SHARE:
        return Severity.CRITICAL
    per_call = cost_ms / calls if known(cost_ms) and calls > 0 else NAN
    if share > _WARNING_SHARE or per_call >= _WARNING_PER_CALL_MS or structural or breaks:
        return Severity.WARNING
    return Severity.INFO
