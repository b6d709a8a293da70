# SPDX-License-Identifier: Apache-2.0
"""Connections that a server closed while the program was stopped: nobody was there to notice."""

from __future__ import annotations

from collections.abc import Sequence

from netdiag.analysis.breaks import stale
from netdiag.analysis.case import Case
from netdiag.analysis.claims import Claim
from netdiag.analysis.links import Link
from netdiag.analysis.standstill import standstills
from netdiag.findings import Learned

__all__ = ["frozen_process"]


def frozen_process(case: Case, rest: Sequence[Link]) -> Claim | None:
    """A program that stood still for long and then went on with connections that had died meanwhile."""
    stops = standstills(case)
    if stops is None:
        return None
    still = {link.row: stops.spoiled_ms(link) for link in rest}
    lost = [link for link in rest if still[link.row] > 0]
    raced = [link for link in lost if stale(link)]
    if not raced and len(lost) < 2:
        return None
    times = [still[link.row] / 1e3 for link in lost]
    failed = f", and {len(raced)} requests met a dead connection" if raced else ""
    return Claim(
        code="reuse.frozen-process",
        lost=tuple(lost),
        confidence=0.9,
        learned=Learned(name="stopped_for", value=max(times), low=min(times), high=max(times), unit="s"),
        note=f"the program stood still for {min(times):.1f} to {max(times):.1f} s{failed}",
        breaks=bool(raced),
        quiet=not raced,
        words={"failed": f"{len(raced)} requests failed" if raced else "connections were made anew"},
    )
