# SPDX-License-Identifier: Apache-2.0
"""Why connections were not used again: each lost connection gets at most one cause, by a fixed order of checks."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.claims import Check, Claim, at_exit
from netdiag.analysis.links import Link, known
from netdiag.analysis.lost_client import client_idle_expiry, client_per_call, client_per_thread
from netdiag.analysis.lost_frozen import frozen_process
from netdiag.analysis.lost_headers import by_headers, or_per_call
from netdiag.analysis.lost_loop import loop_per_call
from netdiag.analysis.lost_pool import cold_burst, pool_split, pool_too_small
from netdiag.analysis.lost_process import process_per_call
from netdiag.analysis.lost_proxy import proxy_connect
from netdiag.analysis.lost_reader import body_left_open, by_answers, closed_unread, or_closed_early
from netdiag.analysis.lost_server import (
    server_close,
    server_idle_timeout,
    server_max_age,
    server_max_requests,
    server_reload,
)
from netdiag.analysis.pricing import setup_cost, successors
from netdiag.analysis.whatif import setup_saved, what_if
from netdiag.findings import Finding, Severity

__all__ = ["CHECKS", "analyze"]

CHECKS: tuple[Check, ...] = (
    loop_per_call,
    body_left_open,
    closed_unread,
    server_reload,
    server_idle_timeout,
    pool_too_small,
    server_max_requests,
    server_max_age,
    server_close,
    client_per_thread,
    client_per_call,
    client_idle_expiry,
    pool_split,
)
"""In the order in which they look at the lost connections of a group."""

_PROXIES = frozenset({"nginx", "envoy", "haproxy", "traefik", "caddy", "squid", "apache2", "httpd", "varnishd"})
_ONE_CALL_EACH = frozenset({"reuse.client-per-call", "reuse.server-close", "reuse.client-asks-close"})


def analyze(case: Case) -> list[Finding]:
    """Return one finding per cause and group."""
    serving = {link.pid for link in case.links if link.role == "server"}
    seen = [
        _seen(case, group, _behind(group, claim, serving)) for group in case.groups for claim in _claims(case, group)
    ]
    return [finding(case, one) for one in (*process_per_call(case), *seen)]


def _behind(group: Group, claim: Claim, serving: Container[float]) -> Claim:
    """Return the claim as what it is when the program is a proxy that serves others."""
    exe = (group.process.exe or "") if group.process else ""
    proxy = exe.rsplit("/", 1)[-1] in _PROXIES and group.pid in serving
    return replace(claim, code="reuse.upstream-close", cause=None) if proxy and claim.code in _ONE_CALL_EACH else claim


def _claims(case: Case, group: Group) -> list[Claim]:
    span_ns = case.tables.span_ms * 1e6
    rest = [link for link in group.links if _lost(link) and not at_exit(link, group, span_ns)]
    tunnels = proxy_connect(case, group, rest)
    claims: list[Claim] = [claim for claim in (tunnels, frozen_process(case, rest)) if claim is not None]
    taken: set[int] = {link.row for claim in claims for link in claim.lost}
    rest = [link for link in rest if link.row not in taken]
    for check in CHECKS:
        claim = check(group, rest)
        # a check may look at connections beyond the lost ones; those that have a cause keep it
        if claim is not None and 2 * sum(link.row in taken for link in claim.lost) < len(claim.lost):
            asked = case.asked_by(group)
            settled = by_headers(by_answers(claim, asked), asked)
            parts = or_per_call(group, settled)
            claims += parts if len(parts) > 1 else or_closed_early(settled)
            taken |= {link.row for link in claim.lost}
            rest = [link for link in rest if link.row not in taken]
    burst = None if claims else cold_burst(group, rest)
    return claims if burst is None else [burst]


def _lost(link: Link) -> bool:
    """It carried requests in this trace from its start and ended in it."""
    return bool(link.outcome in (None, "established") and known(link.closing_ns) and link.used and link.closed_by)


def _seen(case: Case, group: Group, claim: Claim) -> Seen:
    paid = list(claim.pays) if claim.pays is not None else successors(claim.lost, group.links)
    calls = max(group.calls, float(len(claim.lost)))
    cost = claim.cost_ms if claim.cost_ms is not None else setup_cost(paid)
    return Seen(
        code=claim.code,
        links=tuple(sorted(claim.lost, key=lambda link: link.row)),
        count=len(claim.lost),
        of=round(calls),
        confidence=claim.confidence * (1.0 if _sure(claim.lost) else 0.8),
        cost_ms=cost,
        cause=claim.cause,
        learned=claim.learned,
        note=claim.note,
        structural=len(paid) > calls / 2,
        breaks=claim.breaks,
        ceiling=Severity.INFO if claim.quiet else None,
        what_if=_what_if(case, group, paid, cost, calls),
        calls=calls,
        words=claim.words,
        host=group.host,
        process=group.process,
    )


def _sure(lost: Sequence[Link]) -> bool:
    """The requests were counted, or at least it is known that the connections were encrypted."""
    return all(link.exact or link.encrypted is not None for link in lost)


def _what_if(case: Case, group: Group, paid: Sequence[Link], cost: float, calls: float) -> str | None:
    """Return what the calls would have taken without the connections that were paid for."""
    if not paid or not known(cost):
        return None
    asked = case.asked_by(group)
    percentiles = what_if(asked, setup_saved(asked, (link.row for link in paid)))
    if percentiles is not None:
        return f"{len(paid)} connections fewer, {percentiles}"
    each = milliseconds(cost / calls)
    return f"{len(paid)} connections fewer, {each} less per call on average (an estimate from this run's parts)"
