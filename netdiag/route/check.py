# SPDX-License-Identifier: Apache-2.0
"""One live check: look up, connect, trace, name. It sends to the target, to resolvers and to allowed landmarks.

What it sends through is a `Prober` and a `Names`, so that a test can show to whom.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from netdiag import __version__
from netdiag.errors import Unsupported, UsageError
from netdiag.route.between import Between
from netdiag.route.local import device_towards, public_address
from netdiag.route.model import (
    Asked,
    Clocks,
    Connect,
    ConnectOutcome,
    Landmark,
    Measurement,
    Method,
    Odd,
    Protocol,
    Target,
    Trace,
    Vantage,
)
from netdiag.route.names import Names, subnet_of
from netdiag.route.plan import Plan
from netdiag.route.prober import ConnectRequest, OddRequest, Prober, TraceRequest
from netdiag.route.resolvers import system_resolvers

__all__ = ["Plan", "check"]

_MOST_ADDRESSES = 8
_SIDE_BY_SIDE = 4
"""Connections open to one address at a time."""
_FEW = 2
_INSIDE_S = 3.0


def check(
    plan: Plan, prober: Prober, names: Names, base_ns: int, *, say: Callable[[str], None] = lambda _text: None
) -> Measurement:
    """Return what was measured; Unsupported where the host has no address that can be measured."""
    realtime_ns = time.time_ns() - (time.monotonic_ns() - base_ns)
    found = _resolve(plan, names)
    ips = found[:_MOST_ADDRESSES]
    say(f"measuring {len(ips)} addresses")
    with Between(plan, prober, names) as between:
        traces, connects, marks = _measure(plan, prober, ips, between)
        odd = _odd(plan, prober, traces, connects)
        if plan.inside:
            traces += [prober.inside_own(_inside_request(plan, trace.ip), plan.server_name) for trace in tuple(traces)]
        traces += between.traces()
    if plan.names and not plan.offline:
        say("looking up names")
        _name_routers(plan, names, traces)
    now = time.monotonic_ns()
    return Measurement(
        version=f"netdiag {__version__}",
        target=Target(host=plan.host, port=plan.port, protocol=plan.protocol),
        clocks=Clocks(
            monotonic_ns=base_ns, realtime_ns=realtime_ns, end_monotonic_ns=now, end_realtime_ns=time.time_ns()
        ),
        vantage=_vantage(plan, traces),
        privileged=any(trace.privileged for trace in traces),
        traces=tuple(traces),
        connects=(*connects, *marks),
        landmarks=plan.marks,
        lookups=tuple(names.lookups),
        odd=odd,
        asked=(*_asked(traces, connects), *_asked_odd(odd), *_asked_marks(marks), *names.asked),
    )


def _resolve(plan: Plan, names: Names) -> list[str]:
    """Return the target's addresses, the system's choice first."""
    try:
        literal = str(ipaddress.ip_address(plan.host.partition("%")[0].strip("[]")))
    except ValueError:
        literal = None
    if literal is not None:
        if ipaddress.ip_address(literal).version not in plan.families:
            raise UsageError(f"{literal} is no IPv{plan.families[0]} address", hint=f"leave -{plan.families[0]}")
        return [literal]
    if plan.offline:
        raise UsageError(
            f"--offline asks no name server: {plan.host} is a name", hint="give an address, or leave --offline"
        )
    found = names.addresses(plan.host, plan.families)
    kinds = [kind for kind, version in (("A", 4), ("AAAA", 6)) if version in plan.families]
    if plan.resolvers:
        names.ask_all(plan.resolvers, plan.host, [*kinds, "HTTPS"], _subnet(plan))
    elif servers := system_resolvers()[:1]:
        names.ask_all(servers, plan.host, ["HTTPS"])
    others = [ip for look in names.lookups if look.qtype in kinds for ip in look.answers]
    everyone = list(dict.fromkeys([*found, *others]))
    if not everyone:
        errors = {look.error for look in names.lookups if look.error} or {"no address"}
        raise Unsupported(
            f"no address of {plan.host} is known here: {', '.join(sorted(errors))}",
            hint="check the name and this machine's name server (--resolver IP asks another), or give an address",
        )
    return everyone


def _subnet(plan: Plan) -> str | None:
    """Return the subnet to ask with; None behind a translator: the address out there is not known."""
    public = public_address(plan.families)
    return subnet_of(public) if public else None


def _to_trace(ips: Sequence[str]) -> list[str]:
    """Return one address of each IP version: ways to neighbours of an address seldom differ."""
    chosen: dict[bool, str] = {}
    for ip in ips:
        chosen.setdefault(":" in ip, ip)
    return list(chosen.values())


def _measure(
    plan: Plan, prober: Prober, ips: Sequence[str], between: Between
) -> tuple[list[Trace], list[Connect], list[Connect]]:
    """Measure all addresses at the same time, so that they can be compared: paths, connections, landmarks."""
    traced = _to_trace(ips)
    parts = [(ip, request) for ip in ips for request in _connect_requests(plan, ip, full=ip in traced)]
    with ThreadPoolExecutor(max_workers=len(traced) + len(parts) + max(1, len(plan.marks))) as pool:
        traces = [pool.submit(prober.trace, _trace_request(plan, ip), seen=between.told(ip)) for ip in traced]
        connects = [(ip, pool.submit(prober.connect, request)) for ip, request in parts]
        marks = [pool.submit(prober.connect, _mark_request(mark)) for mark in plan.marks]
        joined = [_joined(ip, [job.result() for other, job in connects if other == ip]) for ip in ips]
        return [job.result() for job in traces], joined, [job.result() for job in marks]


def _joined(ip: str, parts: Sequence[Connect]) -> Connect:
    """Return the connections to one address that were opened side by side, in order of time."""
    attempts = sorted((one for part in parts for one in part.attempts), key=lambda one: one.started_ns)
    return Connect(ip=ip, port=parts[0].port, attempts=tuple(attempts))


def _connect_requests(plan: Plan, ip: str, *, full: bool) -> list[ConnectRequest]:
    """Return requests that run side by side and make `plan.attempts` together; few ask an address that is not first."""
    secure = plan.http and not plan.offline and plan.protocol is Protocol.TCP
    each = -(-plan.attempts // _SIDE_BY_SIDE)
    requests = []
    for number in range(_SIDE_BY_SIDE):
        asked = (each if full else int(number < _FEW)) if secure else 0
        requests.append(
            ConnectRequest(
                ip=ip,
                port=plan.port,
                attempts=each,
                server_name=plan.server_name if secure else None,
                tls_attempts=asked,
                http_attempts=asked,
            )
        )
    return requests


def _odd(plan: Plan, prober: Prober, traces: Sequence[Trace], connects: Sequence[Connect]) -> tuple[Odd, ...]:
    """Return unusual probes: as wished, and ClientHellos of two sizes where no TLS handshake was ever answered."""
    found = []
    for trace in traces:
        secure = plan.http and not plan.offline and plan.protocol is Protocol.TCP
        hung = any(connect.ip == trace.ip and _hangs(connect) for connect in connects)
        if plan.odd or (secure and hung):
            name = plan.server_name if secure else None
            reached = (probe.ttl for probe in trace.probes if probe.reply is not None and not probe.far)
            request = OddRequest(
                ip=trace.ip, port=plan.port, server_name=name, raw=plan.odd, last_ttl=max(reached, default=30)
            )
            found.append(prober.odd(request))
    return tuple(found)


def _hangs(connect: Connect) -> bool:
    """Tell whether connections stand and every TLS handshake on them timed out."""
    tried = [
        one
        for one in connect.attempts
        if one.outcome is ConnectOutcome.ESTABLISHED and (one.tls is not None or one.error is not None)
    ]
    dead = [one for one in tried if one.tls is None and (one.error or "").lower() in ("timeout", "etimedout")]
    return len(dead) > _FEW and len(dead) == len(tried)


def _mark_request(mark: Landmark) -> ConnectRequest:
    return ConnectRequest(ip=mark.host, port=mark.port, attempts=5, landmark=mark.name)


def _trace_request(plan: Plan, ip: str) -> TraceRequest:
    return TraceRequest(
        ip=ip,
        port=plan.port,
        protocol=plan.protocol,
        rounds=plan.rounds,
        flows=plan.flows,
        privileged=plan.privileged,
    )


def _inside_request(plan: Plan, ip: str) -> TraceRequest:
    return TraceRequest(ip=ip, port=plan.port, rounds=1, budget_s=_INSIDE_S)


def _name_routers(plan: Plan, names: Names, traces: Iterable[Trace]) -> None:
    servers = plan.resolvers[:1] or system_resolvers()[:1]
    if not servers:
        return
    ips = [probe.reply.ip for trace in traces for probe in trace.probes if probe.reply is not None]
    ips += [trace.ip for trace in traces]
    names.pointers(servers[0], ips)
    if plan.origins:
        names.origins(servers[0], [ip for ip in dict.fromkeys(ips) if ipaddress.ip_address(ip).is_global])


def _vantage(plan: Plan, traces: Sequence[Trace]) -> Vantage:
    source = next((flow.source_ip for trace in traces for flow in trace.flows if flow.source_ip), None)
    given = plan.latitude is not None
    device = next((found for trace in traces if (found := device_towards(trace.ip)) is not None), None)
    return Vantage(
        source_ip=source,
        interface=device[0] if device else None,
        interface_kind=device[1] if device else None,
        proxy=plan.proxy,
        latitude=plan.latitude,
        longitude=plan.longitude,
        source="given" if given else None,
    )


def _asked(traces: Iterable[Trace], connects: Iterable[Connect]) -> Iterable[Asked]:
    for trace in traces:
        if trace.method is not Method.IMPORTED:
            yield Asked(purpose="trace", address=trace.ip, port=trace.port, count=len(trace.probes))
        if trace.method is Method.IN_SESSION:
            yield Asked(purpose="https", address=trace.ip, port=trace.port, count=2)
    for connect in connects:
        yield Asked(purpose="connect", address=connect.ip, port=connect.port, count=len(connect.attempts))
        requests = sum(attempt.http is not None for attempt in connect.attempts)
        if requests:
            yield Asked(purpose="https", address=connect.ip, port=connect.port, count=requests)


def _asked_odd(odd: Iterable[Odd]) -> Iterable[Asked]:
    for one in odd:
        for purpose, count in (("odd", len(one.probes)), ("tls", len(one.greetings))):
            if count:
                yield Asked(purpose=purpose, address=one.ip, port=one.port, count=count)


def _asked_marks(connects: Iterable[Connect]) -> Iterable[Asked]:
    for connect in connects:
        yield Asked(purpose="landmark", address=connect.ip, port=connect.port, count=len(connect.attempts))
