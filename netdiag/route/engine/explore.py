# SPDX-License-Identifier: Apache-2.0
"""The plan of a trace: warm-up, rounds, and on demand as many flows as the stopping rule wants within the budget."""

from __future__ import annotations

from netdiag.route.engine.course import FIRST_TTLS, Course
from netdiag.route.engine.mda import Wanted, routers, wanting
from netdiag.route.model import Kind
from netdiag.route.prober import Seen, TraceRequest

__all__ = ["run"]

FIRST_FLOWS = 6
"""As many as exclude a second way where there is one, at 95 %."""
SAME_FLOW = 8
"""Probes of one flow that tell per-packet balancing from per-flow: two equal ways hide with 1 in 256."""
MOST_AT_ONCE = 32
"""Flows per volley: routers answer a burst of more only in part."""


def run(course: Course, request: TraceRequest, seen: Seen | None = None) -> tuple[str, ...]:
    """Send what the request asks for; return notes on what was left out. `seen` as for `Prober.trace`."""
    explore = request.flows == 0 and course.channel.single_flow
    course.warm_up()
    if request.only:
        course.volley([(0, ttl) for ttl in request.only])
        return ()
    for number in range(request.rounds):
        since = course.channel.now_ns()
        course.burst(range(max(1, request.flows)))
        if number == 0 and course.channel.single_flow:
            _settle_length(course)
        if number == 0 and course.channel.tally.unclaimed:
            _one_by_one(course)
        if seen is not None and number + 1 < request.rounds:
            seen(course.probes, request.rounds - number - 1)
        if number + 1 < request.rounds and not course.pause(since):
            return (f"the time allowed for {number + 1} of {request.rounds} rounds",)
    return _explore(course, request) if explore else ()


def _settle_length(course: Course) -> None:
    """Ask the hop before the first answer of the target again, alone, where it seems silent: it may be the target.

    Of several SYNs of one flow a server answers the first that arrives; those that this one overtook fall out of its
    window (RFC 9293 section 3.10.7.4), and what it says to them names none of them.
    """
    while (reach := course.reach) is not None and reach > 1 and not course.heard(reach - 1):
        course.volley([(0, reach - 1)], again=True)
        if course.reach == reach:
            return


def _one_by_one(course: Course) -> None:
    """Ask the hops that seem silent again, each by a flow of its own: old routers quote no more than the flow."""
    answered = {probe.ttl for probe in course.probes if probe.reply is not None and not probe.far}
    last = course.reach or max(answered, default=0) or FIRST_TTLS
    silent = [ttl for ttl in range(1, last) if ttl not in answered]
    first = 1 + max(probe.flow for probe in course.probes)
    course.volley([(first + at, ttl) for at, ttl in enumerate(silent)])


def _explore(course: Course, request: TraceRequest) -> tuple[str, ...]:
    last = course.reach or max((p.ttl for p in course.probes if p.reply is not None and not p.far), default=0)
    ttls = range(1, last + 1)
    first = 1 + max(probe.flow for probe in course.probes)
    course.volley([(flow, ttl) for flow in range(first, first + FIRST_FLOWS - 1) for ttl in ttls])
    packets = _per_packet(course)
    while more := wanting(routers(course.probes), confidence=request.confidence, skip=packets):
        if not course.pause(course.channel.now_ns()):
            return ("the time ended the search for more ways",)
        asked = len(course.probes)
        course.volley([*more.pairs, *_new_flows(more, asked=1 + max(probe.flow for probe in course.probes))])
        if not any(probe.reply is not None for probe in course.probes[asked:]):
            return ("routers stopped answering before the search for more ways was complete",)
    return ()


def _new_flows(more: Wanted, *, asked: int) -> list[tuple[int, int]]:
    """Return the pairs of new flows, numbered from `asked`: each is asked where it is wanted and one hop before."""
    return [
        (asked + number, ttl)
        for number in range(min(MOST_AT_ONCE, max(more.new.values(), default=0)))
        for ttl in sorted({ttl for hop, lack in more.new.items() if lack > number for ttl in (hop - 1, hop) if ttl})
    ]


def _per_packet(course: Course) -> set[int]:
    """Ask hops that several addresses answered again with one flow; return where that flow meets several, too."""
    met: dict[int, set[str]] = {}
    for probe in course.probes:
        if probe.reply is not None and probe.reply.kind is Kind.TTL_EXCEEDED and not probe.warm_up:
            met.setdefault(probe.ttl, set()).add(probe.reply.ip)
    doubtful = sorted(ttl for ttl, ips in met.items() if len(ips) > 1)
    if not doubtful or not course.pause(course.channel.now_ns()):
        return set()
    asked = len(course.probes)
    course.volley([(0, ttl) for ttl in doubtful for _ in range(SAME_FLOW)])
    same: dict[int, set[str]] = {}
    for probe in course.probes[asked:]:
        if probe.reply is not None:
            same.setdefault(probe.ttl, set()).add(probe.reply.ip)
    return {ttl for ttl, ips in same.items() if len(ips) > 1}
