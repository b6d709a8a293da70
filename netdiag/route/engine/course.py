# SPDX-License-Identifier: Apache-2.0
"""One trace in progress: what is sent when, how far, and when it is over. Knows no socket; time is the channel's.

All hops are asked at once in random order. A far probe goes along that any way lets through: it shows after one round
trip that the target answers, and how long to wait for the rest. No more hops are asked than answers make likely.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from netdiag.route.engine import neighbours
from netdiag.route.engine.channel import Arrival, Channel, Shot
from netdiag.route.engine.neighbours import Neighbour
from netdiag.route.model import Ended, Kind, Probe, Protocol, Reply, Trace
from netdiag.route.prober import TraceRequest
from netdiag.route.replies import from_target, return_hops

__all__ = ["FAR_TTL", "FIRST_TTLS", "Course"]

FAR_TTL = 64
FIRST_TTLS = 16
AHEAD = 8
"""Hops asked beyond the farthest that answered."""
JUMP = 16
"""Hops asked at once when the target answers and the hops before it are not all known."""
SPARE = 3
"""Hops beyond the estimate from the answer's own TTL: the way back may be shorter."""
GRACE_NS = 5_000_000
"""After the far probe's answer: those of the target to other probes may be right behind it."""
LEAST_WAIT_NS = 30_000_000
NEIGHBOUR_NS = 1_000_000_000
"""Longest wait for a neighbour's link address."""
ROUND_NS = 1_000_000_000
"""Bursts are this far apart, so that routers that allow themselves one answer a second can give it."""
_REFUSALS = (Kind.UNREACHABLE, Kind.PORT_UNREACHABLE, Kind.TOO_BIG)


@dataclass(slots=True)
class _Burst:
    """What one burst knows so far; instants on the channel's clock."""

    first: int
    """Number of its first probe."""
    horizon: int
    last_sent_ns: int
    known: bool
    """Whether an earlier burst found how far the target is."""
    target_at_ns: int | None = None
    target_rtt_ns: int = 0
    resolved_at_ns: int | None = None
    """When a probe that is not the far one first reached the target."""
    estimate: int | None = None
    refused_ns: int | None = None
    """When the far probe was refused, one more round trip added."""


class Course:
    """The probes of one trace, and the burst under way."""

    def __init__(
        self,
        channel: Channel,
        request: TraceRequest,
        *,
        base_ns: int,
        source: random.Random,
        unresolved: Callable[[], frozenset[Neighbour]] = neighbours.unresolved,
    ) -> None:
        self.channel = channel
        self.request = request
        self.probes: list[Probe] = []
        self.reach: int | None = None
        """Smallest TTL that the target answered, of any burst."""
        self.target_rtt_ns: int | None = None
        self.duplicates = 0
        self.rounds = 0
        self.refused = False
        self._max_ttl = min(request.max_ttl, FAR_TTL - 1)
        self._base_ns = base_ns
        self._source = source
        self._unresolved = unresolved
        self._far: int | None = None
        """Number of a far probe that left already for the next burst."""
        self._started_ns = channel.now_ns()
        self._sent: set[int] = set()
        self._attempts: dict[tuple[int, int, int], int] = {}

    @property
    def sent(self) -> int:
        """How many probes left."""
        return len(self._sent)

    @property
    def left_ns(self) -> int:
        """How much of the budget is left."""
        return self._started_ns + int(self.request.budget_s * 1e9) - self.channel.now_ns()

    def warm_up(self) -> None:
        """Send the first far probe; where it waits for a neighbour's link address, wait too: then it does not count."""
        before = self._unresolved()
        self._send([(0, FAR_TTL)])
        self._far = 0
        asked = self._unresolved() - before
        end = self.channel.now_ns() + NEIGHBOUR_NS
        while asked and asked & self._unresolved() and self.channel.now_ns() < end:
            self._take(self.channel.receive(0.001))
        if asked:
            self.probes[0] = replace(self.probes[0], warm_up=True)
            self._far = None

    def burst(self, flows: Iterable[int]) -> None:
        """Ask every hop once per flow and wait as long as answers can be expected."""
        flows = list(flows)
        burst = self._begin(flows)
        while (left := self._deadline(burst) - self.channel.now_ns()) > 0:
            arrivals = self.channel.receive(left / 1e9)
            self._take(arrivals)
            self._learn(burst, arrivals)
            want = self._wanted(burst)
            if want > burst.horizon:
                self._send([(flow, ttl) for flow in flows for ttl in range(burst.horizon + 1, want + 1)])
                burst.horizon, burst.last_sent_ns = want, self.channel.now_ns()
        self.rounds += 1

    def heard(self, ttl: int) -> bool:
        """Return whether any probe with this TTL was answered."""
        return any(probe.ttl == ttl and probe.reply is not None for probe in self.probes)

    def volley(self, shots: Sequence[tuple[int, int]], *, again: bool = False) -> None:
        """Send the given (flow, TTL) pairs and wait two round trips of the target for the answers.

        `again`: they belong to the round that is just over, and its round trips are known: one is enough.
        """
        first = len(self.probes)
        self.rounds -= again
        self._send(shots)
        rtt = self.target_rtt_ns or int(self.request.wait_s * 5e8)
        end = self.channel.now_ns() + rtt + (LEAST_WAIT_NS if again else max(rtt, LEAST_WAIT_NS))
        while (left := min(end - self.channel.now_ns(), self.left_ns)) > 0:
            if all(probe.reply is not None for probe in self.probes[first:]):
                break
            self._take(self.channel.receive(left / 1e9))
        self.rounds += 1

    def pause(self, since_ns: int) -> bool:
        """Wait until a round may follow one that began then; False when the budget does not allow it."""
        wait = since_ns + ROUND_NS - self.channel.now_ns()
        if wait >= self.left_ns:
            return False
        end = self.channel.now_ns() + wait
        while (left := end - self.channel.now_ns()) > 0:
            self._take(self.channel.receive(left / 1e9))
        return True

    def trace(self, *, error: str | None = None, notes: tuple[str, ...] = ()) -> Trace:
        """Return what was seen."""
        request, channel = self.request, self.channel
        return Trace(
            ip=request.ip,
            port=None if request.protocol is Protocol.ICMP else request.port,
            protocol=request.protocol,
            method=channel.method,
            privileged=channel.privileged,
            started_ns=self._started_ns - self._base_ns,
            duration_ms=(channel.now_ns() - self._started_ns) / 1e6,
            flows=channel.flows(),
            single_flow=channel.single_flow,
            probes=tuple(probe for number, probe in enumerate(self.probes) if number in self._sent),
            ended=self._ended(),
            wait_ms=request.wait_s * 1000,
            rounds=self.rounds,
            ignored=channel.tally.ignored(self.duplicates, 0),
            error=error,
            notes=notes,
        )

    def _ended(self) -> Ended:
        if not self._sent:
            return Ended.FAILED
        if self.target_rtt_ns is not None:
            return Ended.ANSWERED
        if self.left_ns <= 0:
            return Ended.BUDGET
        return Ended.REFUSED if self.refused else Ended.SILENT

    def _begin(self, flows: Sequence[int]) -> _Burst:
        first = len(self.probes) if self._far is None else self._far
        known = self.reach is not None
        horizon = min(self._max_ttl, self.reach or FIRST_TTLS)
        shots = [(flow, ttl) for flow in flows for ttl in range(1, horizon + 1)]
        self._source.shuffle(shots)
        self._send(shots if self._far is not None else [(flows[0], FAR_TTL), *shots])
        self._far = None
        return _Burst(first=first, horizon=horizon, last_sent_ns=self.channel.now_ns(), known=known)

    def _send(self, pairs: Sequence[tuple[int, int]]) -> None:
        shots = []
        for flow, ttl in pairs:
            key = (flow, ttl, self.rounds)
            attempt = self._attempts.get(key, 0)
            self._attempts[key] = attempt + 1
            shots.append(Shot(number=len(self.probes), flow=flow, ttl=ttl))
            self.probes.append(
                Probe(
                    flow=flow,
                    ttl=ttl,
                    round=self.rounds,
                    attempt=attempt,
                    sent_ns=0,
                    far=ttl == FAR_TTL,
                )
            )
        for sent in self.channel.send(shots):
            self._sent.add(sent.number)
            self.probes[sent.number] = replace(
                self.probes[sent.number], sent_ns=sent.at_ns - self._base_ns, source_port=sent.source_port
            )

    def _take(self, arrivals: Iterable[Arrival]) -> None:
        for arrival in arrivals:
            probe = self.probes[arrival.number]
            if probe.reply is not None:
                self.duplicates += 1
                kept = replace(probe.reply, copies=probe.reply.copies + 1)
                self.probes[arrival.number] = replace(probe, reply=kept)
                continue
            self.probes[arrival.number] = replace(probe, reply=arrival.reply)
            if probe.warm_up:
                continue
            if self._is_target(arrival.reply):
                rtt = int(arrival.reply.rtt_ms * 1e6)
                self.target_rtt_ns = min(rtt, self.target_rtt_ns or rtt)
                if not probe.far:
                    self.reach = min(probe.ttl, self.reach or probe.ttl)
            elif arrival.reply.kind in _REFUSALS:
                self.refused = True

    def _is_target(self, reply: Reply) -> bool:
        return from_target(reply, ip=self.request.ip, protocol=self.request.protocol)

    def _learn(self, burst: _Burst, arrivals: Iterable[Arrival]) -> None:
        now = self.channel.now_ns()
        for arrival in arrivals:
            probe, reply = self.probes[arrival.number], arrival.reply
            if arrival.number < burst.first or probe.warm_up:
                continue
            rtt = int(reply.rtt_ms * 1e6)
            if self._is_target(reply):
                if burst.target_at_ns is None:
                    burst.target_at_ns, burst.target_rtt_ns = now, rtt
                    burst.estimate = return_hops(reply.ttl)
                if probe.ttl <= burst.horizon and burst.resolved_at_ns is None:
                    burst.resolved_at_ns = now
            elif probe.far and reply.kind in _REFUSALS:
                burst.refused_ns = now + max(rtt, LEAST_WAIT_NS)

    def _wanted(self, burst: _Burst) -> int:
        """Return up to which TTL hops should be asked, from what answered."""
        if burst.resolved_at_ns is not None or burst.refused_ns is not None:
            return burst.horizon
        answered = [
            probe.ttl
            for probe in self.probes[burst.first :]
            if probe.reply is not None and probe.reply.kind is Kind.TTL_EXCEEDED and probe.ttl <= burst.horizon
        ]
        want = 0 if burst.known else max(answered, default=0) + AHEAD
        now = self.channel.now_ns()
        if burst.target_at_ns is not None and now >= burst.target_at_ns + GRACE_NS:
            likely = FIRST_TTLS + JUMP if burst.estimate is None else burst.estimate + 1 + SPARE
            refuted = max(answered, default=0) >= likely  # the way back is shorter than the one there
            want = likely if burst.estimate is not None and not refuted else max(want, FIRST_TTLS + JUMP)
            if burst.horizon >= want and now - burst.last_sent_ns > burst.target_rtt_ns + LEAST_WAIT_NS:
                want = burst.horizon + JUMP
        return min(self._max_ttl, max(want, burst.horizon))

    def _deadline(self, burst: _Burst) -> int:
        """Return until when answers are waited for."""
        now = self.channel.now_ns()
        limit = min(burst.last_sent_ns + int(self.request.wait_s * 1e9), now + self.left_ns)
        if burst.target_at_ns is None:
            return min(limit, burst.refused_ns or limit)
        if burst.resolved_at_ns is None:
            if now < burst.target_at_ns + GRACE_NS:
                return min(limit, burst.target_at_ns + GRACE_NS)
            spare = LEAST_WAIT_NS if burst.horizon >= self._max_ttl else 2 * LEAST_WAIT_NS
            return min(limit, burst.last_sent_ns + burst.target_rtt_ns + spare)
        return min(limit, max((self._patience(burst, sent) for sent in self._missing(burst)), default=now))

    def _patience(self, burst: _Burst, sent_ns: int) -> int:
        """Return until when a probe's answer is waited for: two round trips of the target, for late ones a bit less."""
        rtt = burst.target_rtt_ns
        first = sent_ns if burst.target_at_ns is None else burst.target_at_ns
        return max(sent_ns + rtt + LEAST_WAIT_NS, min(sent_ns + 2 * rtt, first + rtt))

    def _missing(self, burst: _Burst) -> list[int]:
        """Return when those probes were sent that should have met a router, or the target, and have no answer."""
        reach = self.reach or 0
        return [p.sent_ns + self._base_ns for p in self.probes[burst.first :] if p.reply is None and p.ttl <= reach]
