# SPDX-License-Identifier: Apache-2.0
"""A channel whose network is a function and whose clock is a number: traces run in no time and come out the same."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from netdiag.route.engine.channel import Arrival, Sent, Shot, Tally
from netdiag.route.model import Clock, Flow, Kind, Matched, Method, Reply

__all__ = ["FakeChannel", "reply", "way"]

Answer = list[tuple[float, Reply]]
"""(milliseconds after sending, reply)."""


def reply(kind: Kind, ip: str, rtt_ms: float, *, ttl: int | None = None) -> tuple[float, Reply]:
    """Return an answer that comes after its round trip."""
    made = Reply(kind=kind, ip=ip, rtt_ms=rtt_ms, clock=Clock.KERNEL, matched=Matched.SEQUENCE, ttl=ttl)
    return rtt_ms, made


def way(
    length: int, ms: float, *, silent: Sequence[int] = (), back: int | None = None
) -> Callable[[Shot, float], Answer]:
    """Return a network of evenly spaced routers with the target at distance `length`, `ms` away."""

    def answer(shot: Shot, _at_ms: float) -> Answer:
        if shot.ttl >= length:
            ttl = None if back is None else 64 - back
            return [reply(Kind.SYN_ACK, "203.0.113.10", ms, ttl=ttl)]
        if shot.ttl in silent:
            return []
        return [reply(Kind.TTL_EXCEEDED, f"198.18.0.{shot.ttl}", ms * shot.ttl / length)]

    return answer


@dataclass(slots=True)
class FakeChannel:
    """Sends into a function; only `receive` makes time pass."""

    network: Callable[[Shot, float], Answer]
    method: Method = Method.TCP_RAW
    privileged: bool = True
    single_flow: bool = True
    tally: Tally = field(default_factory=Tally)
    at_ns: int = 1_000_000_000
    sent: list[tuple[float, Shot]] = field(default_factory=list)
    """(milliseconds since the start, shot)."""
    waiting: list[tuple[int, int, Arrival]] = field(default_factory=list)
    order: int = 0
    closed: bool = False
    broken: bool = False
    """Whether nothing can be sent."""

    def send(self, shots: Sequence[Shot]) -> list[Sent]:
        """Note each shot and when its answers come."""
        if self.broken:
            return []
        for shot in shots:
            at_ms = (self.at_ns - 1_000_000_000) / 1e6
            self.sent.append((at_ms, shot))
            for after_ms, answer in self.network(shot, at_ms):
                self.order += 1
                arrival = Arrival(number=shot.number, reply=answer)
                heapq.heappush(self.waiting, (self.at_ns + int(after_ms * 1e6), self.order, arrival))
        return [Sent(number=shot.number, at_ns=self.at_ns) for shot in shots]

    def receive(self, timeout_s: float) -> list[Arrival]:
        """Let time pass until the next answer, no longer than the timeout."""
        end = self.at_ns + max(1, int(timeout_s * 1e9))
        if not self.waiting or self.waiting[0][0] > end:
            self.at_ns = end
            return []
        self.at_ns = max(self.at_ns, self.waiting[0][0])
        ready = []
        while self.waiting and self.waiting[0][0] <= self.at_ns:
            ready.append(heapq.heappop(self.waiting)[2])
        return ready

    def flows(self) -> tuple[Flow, ...]:
        """Return the flows that were used."""
        used = {shot.flow for _, shot in self.sent} or {0}
        return tuple(Flow(id=flow, source_ip="198.18.255.2", source_port=40_000 + flow) for flow in sorted(used))

    def now_ns(self) -> int:
        """Return the simulated clock."""
        return self.at_ns

    def close(self) -> None:
        """Note it."""
        self.closed = True
