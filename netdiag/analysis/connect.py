# SPDX-License-Identifier: Apache-2.0
"""Connections that were never made or made late: refused, unanswered, lost SYNs, local limits, IPv6 without a way."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.links import NAN, Link, column, known, number, text
from netdiag.findings import Evidence, Finding, Severity

__all__ = ["analyze"]

_LIMITS = frozenset({"EADDRNOTAVAIL", "EMFILE", "ENFILE", "EADDRINUSE", "EAGAIN"})
_RESCUE_NS = 2.5e9
_FALLBACK_MS = 150.0
"""Faster than the shortest wait of a client that tries both families side by side is no wait."""
_SYN_TIMEOUT_MS = 800.0

_Made = Mapping[tuple[float, float], tuple[list[float], list[Link]]]


def analyze(case: Case) -> list[Finding]:
    """Return one finding per cause and group."""
    made = _made(case)
    found: list[Seen | None] = []
    for group in case.groups:
        fallen = [link for link in group.links if _fallback(link, made) is not None]
        failed = [link for link in group.links if link not in fallen and _fallback(link, made, least_ms=0.0) is None]
        found += [_ipv6(case, group, fallen, made), _refused(group, failed), _limit(group, failed)]
        found += [_timeout(case, group, failed), _syn(group)]
    found += _accept_queues(case)
    return [finding(case, seen) for seen in found if seen is not None]


def _made(case: Case) -> _Made:
    """Return the established connections by process and port, in order of opening."""
    found: dict[tuple[float, float], list[Link]] = {}
    for link in sorted((link for link in case.clients if link.outcome == "established"), key=lambda link: link.row):
        if known(link.opened_ns):
            found.setdefault((link.pid, link.remote_port), []).append(link)
    ordered = {key: sorted(links, key=lambda link: link.opened_ns) for key, links in found.items()}
    return {key: ([link.opened_ns for link in links], links) for key, links in ordered.items()}


def _fallback(link: Link, made: _Made, least_ms: float = _FALLBACK_MS) -> Link | None:
    """Return the connection of the other address family that took the place of a failed one, after so long a wait."""
    if link.outcome == "established" or link.family is None or not known(link.opened_ns):
        return None
    starts, links = made.get((link.pid, link.remote_port), ([], []))
    for other in links[bisect_left(starts, link.opened_ns + least_ms * 1e6) :]:
        if other.opened_ns > link.opened_ns + _RESCUE_NS:
            return None
        if other.family != link.family and (least_ms == 0.0 or link.family == "ipv6"):
            return other
    return None


def _waits(links: Sequence[Link], span_ns: float) -> list[float]:
    ends = [min([at for at in (link.ended_ns, span_ns) if known(at)]) for link in links]
    return [(end - link.opened_ns) / 1e6 for end, link in zip(ends, links, strict=True) if known(link.opened_ns)]


def _end(link: Link) -> tuple[object, ...]:
    return link.pid, link.family, link.remote_ip, link.remote_port


def _ipv6(case: Case, group: Group, fallen: Sequence[Link], made: _Made) -> Seen | None:
    later = [other for link in fallen if (other := _fallback(link, made)) is not None]
    waits = [(other.opened_ns - link.opened_ns) / 1e6 for link, other in zip(fallen, later, strict=True)]
    if not fallen:
        return None
    lost = {_end(link) for link in fallen}
    if any(link.outcome == "established" and _end(link) in lost for link in case.clients):
        return None  # that address leads somewhere: something else ended these attempts
    return Seen(
        code="tcp.ipv6-fallback",
        links=tuple(fallen),
        count=len(fallen),
        of=max(len(fallen), len({other.row for other in later})),
        confidence=0.85,
        cost_ms=sum(waits),
        note=f"IPv4 was tried {milliseconds(median(waits))} later and answered",
        host=group.host,
        process=group.process,
    )


def _refused(group: Group, failed: Sequence[Link]) -> Seen | None:
    refused = [link for link in failed if link.outcome == "refused"]
    if not refused:
        return None
    times = [(link.ended_ns - link.opened_ns) / 1e6 for link in refused if known(link.ended_ns - link.opened_ns)]
    always = all(link.outcome == "refused" for link in group.links)
    return Seen(
        code="tcp.refused",
        links=tuple(refused),
        count=len(refused),
        of=len(group.links),
        confidence=0.98,
        cost_ms=sum(times) if times else NAN,
        cause="always" if always else "sometimes",
        severity=Severity.CRITICAL if always or len(refused) >= 3 else Severity.WARNING,
        host=group.host,
        process=group.process,
    )


def _limit(group: Group, failed: Sequence[Link]) -> Seen | None:
    limited = [link for link in failed if link.error in _LIMITS]
    if not limited:
        return None
    errors = sorted({link.error for link in limited if link.error})
    return Seen(
        code="tcp.local-limit",
        links=tuple(limited),
        count=len(limited),
        of=len(group.links),
        confidence=0.9,
        cause=errors[0],
        note=", ".join(errors),
        severity=Severity.CRITICAL,
        words={"errors": ", ".join(errors)},
        host=group.host,
        process=group.process,
    )


def _timeout(case: Case, group: Group, failed: Sequence[Link]) -> Seen | None:
    span_ns = case.tables.span_ms * 1e6
    lost = [link for link in failed if _no_answer(link, span_ns) and link.error not in _LIMITS]
    if not lost:
        return None
    waits = _waits(lost, span_ns)
    unreachable = all(link.outcome == "unreachable" for link in lost)
    cause = "unreachable" if unreachable else "gave-up" if all(link.outcome == "cancelled" for link in lost) else None
    return Seen(
        code="tcp.connect-timeout",
        links=tuple(lost),
        count=len(lost),
        of=len(group.links),
        confidence=0.95,
        cost_ms=sum(waits) if waits else NAN,
        cause=cause,
        note=f"the longest attempt lasted {milliseconds(max(waits))}" if waits else "",
        severity=Severity.CRITICAL if len(lost) >= 3 or len(lost) == len(group.links) else Severity.WARNING,
        words={"what": "found no route" if unreachable else "got no answer"},
        host=group.host,
        process=group.process,
    )


def _no_answer(link: Link, span_ns: float) -> bool:
    if link.outcome in ("timeout", "unreachable"):
        return True
    waited = max(_waits([link], span_ns), default=0.0)
    return link.outcome in ("cancelled", "pending") and link.syn_retransmits > 0 and waited >= _SYN_TIMEOUT_MS


def _late(link: Link) -> bool:
    return link.outcome == "established" and link.syn_retransmits > 0 and link.connect_ms >= _SYN_TIMEOUT_MS


def _syn(group: Group) -> Seen | None:
    late = [link for link in group.links if _late(link)]
    if not late:
        return None
    return Seen(
        code="tcp.syn-retransmit",
        links=tuple(late),
        count=len(late),
        of=len(group.links),
        confidence=0.95,
        cost_ms=sum(link.connect_ms - (link.min_rtt_ms if known(link.min_rtt_ms) else 0.0) for link in late),
        note=f"{sum(link.syn_retransmits for link in late):.0f} SYNs were sent again",
        calls=max(group.calls, 1.0),
        host=group.host,
        process=group.process,
    )


def _accept_queues(case: Case) -> list[Seen]:
    """Return the listening sockets of this machine that refused connections because their queue was full."""
    table = case.tables.listeners
    names = ("netns", "local_ip", "local_port", "pid", "drops", "accept_queue", "accept_queue_max")
    looks: dict[tuple[str, str, float], list[tuple[float, float, float, float]]] = {}
    for netns, ip, port, pid, *counts in zip(*(column(table, name) for name in names), strict=True):
        drops, queue, limit = map(number, counts)
        looks.setdefault((str(netns), text(ip) or "?", number(port)), []).append((drops, queue, limit, number(pid)))
    return [seen for key, seen_at in looks.items() if (seen := _accept_queue(case, key, seen_at))]


def _accept_queue(
    case: Case, key: tuple[str, str, float], looks: Sequence[tuple[float, float, float, float]]
) -> Seen | None:
    _, ip, port = key
    drops = looks[-1][0] - looks[0][0] if len(looks) > 1 else looks[0][0]
    if not drops > 0:
        return None
    late = [link for link in case.clients if _late(link) and link.remote_port == port]
    accepted = sum(link.role == "server" and link.local_port == port for link in case.links)
    if not late and (not accepted or len(looks) < 2):
        return None  # a stranger's listener, or drops that may be older than the trace
    pid = looks[-1][3]
    return Seen(
        code="tcp.accept-queue",
        links=tuple(late),
        count=int(drops),
        of=int(drops) + max(accepted, len(late)),
        confidence=0.9,
        cost_ms=sum(link.connect_ms for link in late) if late else NAN,
        breaks=True,
        words={"limit": f"{looks[-1][2]:.0f}" if known(looks[-1][2]) else "?"},
        evidence=(Evidence(kind="listener", id=None, note=f"{ip}:{port:.0f} dropped {drops:.0f} SYNs or ACKs"),),
        host=f"{ip}:{port:.0f}",
        process=case.processes.get(pid),
    )
