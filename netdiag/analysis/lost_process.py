# SPDX-License-Identifier: Apache-2.0
"""A process per call: connections that end with the process that made them."""

from __future__ import annotations

from collections.abc import Sequence

from netdiag.analysis.build import Seen
from netdiag.analysis.case import Case, Group
from netdiag.analysis.links import Link, known
from netdiag.analysis.pricing import setup_cost

__all__ = ["process_per_call"]

_SOON_NS = 2e9
_MOST_CALLS = 3


def process_per_call(case: Case) -> list[Seen]:
    """Return one cause per parent, program and host with at least three short processes of one connection each."""
    families: dict[tuple[float, str, str], list[Group]] = {}
    for group in case.groups:
        process = group.process
        if process is not None and known(process.ppid) and _short(group):
            name = process.exe or process.comm or ""
            families.setdefault((process.ppid, name, group.host), []).append(group)
    return [_seen(groups) for groups in families.values() if len(groups) >= 3 and _in_turn(groups)]


def _short(group: Group) -> bool:
    """The process made one connection for a few calls and ended soon after."""
    used = [link for link in group.links if link.used]
    if len(used) != 1 or not known(group.end_ns) or not used[0].app <= _MOST_CALLS:
        return False
    last = used[0].calls[-1].last_byte_ns if used[0].calls else used[0].closing_ns
    return used[0].closed_by != "remote" and group.end_ns - last <= _SOON_NS


def _in_turn(groups: Sequence[Group]) -> bool:
    """At least two connections were opened after another one had ended: one process could have kept it."""
    ends = sorted(group.end_ns for group in groups)
    opened = sorted(group.links[0].opened_ns for group in groups)
    return sum(start >= ends[0] for start in opened) >= 2


def _seen(groups: Sequence[Group]) -> Seen:
    links: list[Link] = sorted((link for group in groups for link in group.links if link.used), key=_order)
    calls = max(sum(group.calls for group in groups), float(len(links)))
    paid = links[1:]
    return Seen(
        code="reuse.process-per-call",
        links=tuple(links),
        count=len(groups),
        of=round(calls),
        confidence=0.95,
        cost_ms=setup_cost(paid),
        note="each process ended after its calls",
        structural=len(paid) > calls / 2,
        calls=calls,
        host=groups[0].host,
        process=groups[0].process,
    )


def _order(link: Link) -> tuple[float, int]:
    return (link.opened_ns, link.row)
