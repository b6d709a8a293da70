# SPDX-License-Identifier: Apache-2.0
"""From probes to hops: who answered at which distance, how flows are spread there, who limits or labels what.

Pure functions of a `Trace`. A hop that does not answer is silent; that is never called loss.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

from netdiag.route.model import Kind, Label, Probe, Reply, Trace
from netdiag.route.replies import from_target

__all__ = ["Balance", "Hop", "Path", "Responder", "build", "filled", "is_target"]

_CARRIER = ipaddress.ip_network("100.64.0.0/10")


class Balance(StrEnum):
    """How packets are spread over the answering routers of one hop."""

    FLOW = "flow"
    """Each flow met one address: balanced by flow."""
    PACKET = "packet"
    """One and the same flow met several addresses in turn."""
    CHANGED = "changed"
    """One flow met another address from some moment on: the route changed."""
    MIXED = "mixed"
    """Several addresses, and every probe was a flow of its own: which kind it is cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Responder:
    """One address that answered at one distance."""

    ip: str
    rtt_ms: tuple[float, ...]
    """Of every answer, in order of sending."""
    labels: tuple[Label, ...] = ()
    """MPLS stack of its first labelled answer."""
    flows: tuple[int, ...] = ()
    """Which flows met it."""
    via: str | None = None
    """The other protocol that it answered, where it is silent to the path's own; None: to that."""

    @property
    def answers(self) -> int:
        """Return how many probes it answered."""
        return len(self.rtt_ms)

    @property
    def min_ms(self) -> float:
        """Return its shortest round trip."""
        return min(self.rtt_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One distance from here."""

    ttl: int
    probes: int
    """Sent with that TTL; warm-up probes not counted."""
    responders: tuple[Responder, ...] = ()
    """The one with most answers first; none: silent."""
    balance: Balance | None = None
    """None: one address at most."""
    limited: bool = False
    """Left probes unanswered while hops behind it answered theirs: it limits its answers."""
    tunnel: bool = False
    """Inside an MPLS tunnel and not at its end: its round trip is that of the tunnel's end."""
    target: bool = False
    """Holds the target's own answer."""

    @property
    def min_ms(self) -> float | None:
        """Return the shortest round trip of any answer; None: silent."""
        return min((one.min_ms for one in self.responders), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The hops to one address."""

    trace: Trace
    hops: tuple[Hop, ...]
    """From 1 to the target, or to the last that answered; silent ones included."""
    reached: bool
    notes: tuple[str, ...] = field(default=())
    """What a reader of the table has to know, a sentence each."""

    @property
    def responders(self) -> tuple[tuple[int, Responder], ...]:
        """Return every (TTL, responder)."""
        return tuple((hop.ttl, one) for hop in self.hops for one in hop.responders)


def is_target(trace: Trace, reply: Reply) -> bool:
    """Tell whether a reply to a probe of that trace is the target's own."""
    return from_target(reply, ip=trace.ip, protocol=trace.protocol)


def build(trace: Trace) -> Path:
    """Return the hops that a trace found."""
    counted = [probe for probe in trace.probes if not probe.warm_up and not probe.far]
    by_ttl: dict[int, list[Probe]] = defaultdict(list)
    for probe in counted:
        by_ttl[probe.ttl].append(probe)
    passed = [ttl for ttl, probes in by_ttl.items() if any(_exceeded(probe.reply) for probe in probes)]
    answered = passed or [ttl for ttl, probes in by_ttl.items() if any(probe.reply for probe in probes)][:1]
    at_target = [probe.ttl for probe in counted if probe.reply is not None and is_target(trace, probe.reply)]
    end = min(at_target) if at_target else max(answered, default=0)
    hops = [_hop(trace, ttl, by_ttl.get(ttl, []), target=bool(at_target) and ttl == end) for ttl in range(1, end + 1)]
    hops = _limits(hops)
    hops = _tunnels(hops)
    reached = any(probe.reply is not None and is_target(trace, probe.reply) for probe in trace.probes)
    return Path(trace=trace, hops=tuple(hops), reached=reached, notes=tuple(_notes(trace, hops)))


def filled(path: Path, others: Sequence[Path]) -> Path:
    """Return a path whose silent hops hold who answered another protocol at that distance.

    Another protocol may take another way where load is balanced, so hops that did answer are left as they are.
    """
    if not others or not path.hops:
        return path
    return replace(path, hops=tuple(_filled(hop, others) for hop in path.hops))


def _filled(hop: Hop, others: Sequence[Path]) -> Hop:
    if hop.responders:
        return hop
    for other in others:
        same = next((one for one in other.hops if one.ttl == hop.ttl and one.responders and not one.target), None)
        if same is not None:
            via = str(other.trace.protocol)
            return replace(hop, responders=tuple(replace(one, via=via) for one in same.responders))
    return hop


def _exceeded(reply: Reply | None) -> bool:
    """Tell whether a router on the way said so; who refuses answers for every distance behind it, too."""
    return reply is not None and reply.kind is Kind.TTL_EXCEEDED


def _hop(trace: Trace, ttl: int, probes: Sequence[Probe], *, target: bool) -> Hop:
    met: dict[str, list[Probe]] = defaultdict(list)
    for probe in sorted(probes, key=lambda one: one.sent_ns):
        if probe.reply is not None:
            met[probe.reply.ip].append(probe)
    responders = [_responder(ip, answered) for ip, answered in met.items()]
    responders.sort(key=lambda one: (-one.answers, one.ip))
    return Hop(
        ttl=ttl, probes=len(probes), responders=tuple(responders), balance=_balance(trace, probes), target=target
    )


def _responder(ip: str, probes: Sequence[Probe]) -> Responder:
    replies = [probe.reply for probe in probes if probe.reply is not None]
    return Responder(
        ip=ip,
        rtt_ms=tuple(reply.rtt_ms for reply in replies),
        labels=next((reply.labels for reply in replies if reply.labels), ()),
        flows=tuple(sorted({probe.flow for probe in probes})),
    )


def _balance(trace: Trace, probes: Iterable[Probe]) -> Balance | None:
    by_flow: dict[int, list[str]] = defaultdict(list)
    for probe in sorted(probes, key=lambda one: one.sent_ns):
        if probe.reply is not None:
            by_flow[probe.flow].append(probe.reply.ip)
    if len({ip for met in by_flow.values() for ip in met}) < 2:
        return None
    if not trace.single_flow:
        return Balance.MIXED
    switches = max(sum(one != other for one, other in pairwise(met)) for met in by_flow.values())
    if switches == 0:
        return Balance.FLOW
    return Balance.PACKET if switches > 1 else Balance.CHANGED


def _limits(hops: Sequence[Hop]) -> list[Hop]:
    marked = []
    for at, hop in enumerate(hops):
        answers = sum(one.answers for one in hop.responders)
        share = answers / hop.probes if hop.probes else 1.0
        behind = [sum(r.answers for r in later.responders) / later.probes for later in hops[at + 1 :] if later.probes]
        limited = hop.probes >= 2 and 0 < share < 1 and any(other > share for other in behind)
        marked.append(replace(hop, limited=limited))
    return marked


def _tunnels(hops: Sequence[Hop]) -> list[Hop]:
    """Mark labelled hops that another labelled hop follows: only the last of a run shows its own round trip."""
    labelled = [any(one.labels for one in hop.responders) for hop in hops]
    marked = []
    for at, hop in enumerate(hops):
        behind = next((labelled[later] for later in range(at + 1, len(hops)) if hops[later].responders), False)
        marked.append(replace(hop, tunnel=labelled[at] and behind))
    return marked


_REFUSALS: dict[int, dict[int, str]] = {
    4: {0: "no way to that network", 1: "no way to that host", 9: "forbidden", 10: "forbidden", 13: "forbidden"},
    6: {0: "no way there", 1: "forbidden", 3: "no such address", 5: "forbidden", 6: "no way there"},
}
"""What codes of unreachable messages mean (RFC 792, RFC 1812, RFC 4443)."""


def _refusals(trace: Trace) -> Iterable[str]:
    """Yield who on the way refused to pass probes on, and in which words."""
    version = 6 if ":" in trace.ip else 4
    seen = [probe.reply for probe in trace.probes if probe.reply is not None and probe.reply.kind is Kind.UNREACHABLE]
    for ip, code in dict.fromkeys((reply.ip, reply.code) for reply in seen):
        words = _REFUSALS[version].get(-1 if code is None else code, "unreachable")
        yield f"{ip} refuses it: {words} (ICMP code {code}): a firewall, or a route that is missing"


def _twice(hops: Sequence[Hop]) -> Iterable[str]:
    """Yield who stands at several distances: no two routers, and no longer way, follow from that."""
    at: dict[str, list[int]] = defaultdict(list)
    for hop in hops:
        for one in hop.responders:
            at[one.ip].append(hop.ttl)
    for ip, ttls in at.items():
        if len(ttls) > 1 and not hops[ttls[-1] - 1].target:
            where = ", ".join(map(str, ttls))
            yield f"{ip} answers at hops {where}: a hop that hides behind it, a tunnel, or a way that changed"


def _notes(trace: Trace, hops: Sequence[Hop]) -> Iterable[str]:
    yield from _refusals(trace)
    yield from _twice(hops)
    first = hops[0].min_ms if hops else None
    behind = [hop.min_ms for hop in hops[1:] if hop.min_ms is not None]
    if first is not None and first > 20 and (not behind or min(behind) > 20):
        yield f"the first hop alone takes {first:.0f} ms: a busy line, Wi-Fi, a satellite or a tunnel starts here"
    if hops and hops[-1].target and hops[-1].ttl <= 3 and (hops[-1].min_ms or 1.0) < 1.0:
        yield f"the target answered after {hops[-1].ttl} hops within 1 ms: a proxy or an agent on the way may have"
    changed = {
        name for probe in trace.probes if probe.reply and probe.reply.quote for name in probe.reply.quote.changed
    }
    if changed & {"source-ip", "source-port", "ip-id"} or "checksum" in changed:
        yield "addresses are translated on the way (NAT): a router quoted a changed probe"
    if any(ipaddress.ip_address(one.ip) in _CARRIER for hop in hops for one in hop.responders if "." in one.ip):
        yield "a carrier shares addresses among customers here (100.64.0.0/10): the client's own place may be elsewhere"
    if any(hop.tunnel for hop in hops):
        yield "MPLS: hops of a tunnel show the round trip of its end; no step is blamed on them"
    if any(hop.limited for hop in hops):
        yield "some hops limit their answers: that is not loss"
    if any(hop.balance is Balance.PACKET for hop in hops):
        yield "packets of one flow are spread over several routers: rows may mix paths"
    if any(hop.balance is Balance.MIXED for hop in hops):
        yield "each probe was a flow of its own (no privileges): rows may mix paths"
