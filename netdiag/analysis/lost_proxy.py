# SPDX-License-Identifier: Apache-2.0
"""Connections through a proxy that carry one call each: a CONNECT before every one."""

from __future__ import annotations

from collections.abc import Sequence

from netdiag.analysis.case import Case, Group
from netdiag.analysis.claims import Claim, complete
from netdiag.analysis.links import Link, column

__all__ = ["proxy_connect"]

_HABIT = 3
_CONNECT = "CONNECT"


def proxy_connect(case: Case, group: Group, rest: Sequence[Link]) -> Claim | None:
    """Each call asks the proxy to connect anew: the tunnel of the call before is gone with its connection."""
    tunnelled = _rows(case, group)
    if not tunnelled:
        return None
    used = [link for link in group.links if link.used and link.row in tunnelled]
    lost = [link for link in rest if link.row in tunnelled and complete(link) and _calls(case, link) <= 1]
    if len(lost) < _HABIT or len(lost) < 0.5 * len(used):
        return None
    local = sum(link.closed_by == "local" for link in lost)
    who = "the program" if local > len(lost) / 2 else "the proxy or the server behind it"
    return Claim(
        code="reuse.proxy-connect",
        lost=tuple(lost),
        confidence=0.85,
        cause="local" if local > len(lost) / 2 else "remote",
        note=f"{max(local, len(lost) - local)} of them closed by {who}",
        words={"who": who},
    )


def _rows(case: Case, group: Group) -> set[int]:
    memo = case.rows.memo
    if ("proxied", 0) not in memo:
        cells = column(case.tables.connections, "proxied")
        memo["proxied", 0] = {row for row, proxied in enumerate(cells) if proxied}
    tunnelled: set[int] = memo["proxied", 0]
    return {link.row for link in group.links if link.row in tunnelled} if tunnelled else set()


def _calls(case: Case, link: Link) -> float:
    """Return the requests inside the tunnel, where the one to the proxy was counted as well."""
    return link.app - sum(call.method == _CONNECT for call in case.asked.get(link.row, ()))
