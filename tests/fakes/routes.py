# SPDX-License-Identifier: Apache-2.0
"""Measured routes made by hand: hops as (address, milliseconds), connections as a list of round trips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netdiag.route import document
from netdiag.route.knowledge import Knowledge
from netdiag.route.model import (
    Attempt,
    Clock,
    Clocks,
    Connect,
    ConnectOutcome,
    Ended,
    Flow,
    HttpAnswer,
    Kind,
    Label,
    Lookup,
    Matched,
    Measurement,
    Method,
    Probe,
    Protocol,
    Reply,
    Target,
    Trace,
    Vantage,
)
from netdiag.route.survey import Inputs, examine

REPLAYS = Path(__file__).resolve().parents[1] / "unit" / "route" / "replays"
IP = "203.0.113.10"
BERLIN = (52.52, 13.4)
START_NS = 1_796_000_000_000_000_000
LABEL = Label(value=24001, traffic_class=0, bottom=True, ttl=1)


def reply(ip: str, ms: float, kind: Kind = Kind.TTL_EXCEEDED, labels: tuple[Label, ...] = ()) -> Reply:
    """Return an answer."""
    return Reply(kind=kind, ip=ip, rtt_ms=ms, clock=Clock.KERNEL, matched=Matched.SEQUENCE, labels=labels)


def probe(ttl: int, answer: Reply | None, *, flow: int = 0, number: int = 0, sent_ns: int = 0) -> Probe:
    """Return a probe with its answer."""
    return Probe(flow=flow, ttl=ttl, round=number, attempt=0, sent_ns=sent_ns, reply=answer)


def trace(
    hops: Sequence[tuple[str, float] | None],
    *,
    ip: str = IP,
    reached: bool = True,
    labelled: Sequence[int] = (),
    rounds: int = 3,
    single_flow: bool = True,
) -> Trace:
    """Return a trace over hops, the last being the target where it was reached; None: a silent one."""
    probes: list[Probe] = []
    for number in range(rounds):
        for ttl, hop in enumerate(hops, 1):
            answer = None
            if hop is not None:
                at_target = reached and ttl == len(hops)
                labels = (LABEL,) if ttl in labelled else ()
                answer = reply(hop[0], hop[1], Kind.SYN_ACK if at_target else Kind.TTL_EXCEEDED, labels)
            probes.append(probe(ttl, answer, number=number, sent_ns=len(probes)))
    return wrap(probes, ip=ip, reached=reached, single_flow=single_flow)


def wrap(probes: Sequence[Probe], *, ip: str = IP, reached: bool = True, single_flow: bool = True) -> Trace:
    """Return probes as a trace."""
    return Trace(
        ip=ip,
        port=443,
        protocol=Protocol.TCP,
        method=Method.TCP_RAW,
        privileged=True,
        started_ns=0,
        duration_ms=1.0,
        flows=(Flow(id=0),),
        single_flow=single_flow,
        probes=tuple(probes),
        ended=Ended.ANSWERED if reached else Ended.SILENT,
        wait_ms=1000.0,
        rounds=3,
    )


def attempt(ms: float | None, *, port: int = 40000, pop: str | None = None, again: int = 0) -> Attempt:
    """Return a connection; None: it timed out. `pop`: what its answer's cf-ray names."""
    headers = {"cf-ray": f"8f00ba12cafe0001-{pop}"}
    return Attempt(
        started_ns=port * 100_000_000,
        source_port=port,
        outcome=ConnectOutcome.TIMEOUT if ms is None else ConnectOutcome.ESTABLISHED,
        connect_ms=ms,
        clock=Clock.TCP_INFO,
        retransmits=again,
        http=HttpAnswer(status=200, wait_ms=ms + 3, headers=headers) if pop and ms is not None else None,
    )


def connect(
    times: Sequence[float | None], *, ip: str = IP, pop: str | None = None, landmark: str | None = None
) -> Connect:
    """Return connections with these round trips."""
    attempts = tuple(attempt(ms, port=40000 + at, pop=pop) for at, ms in enumerate(times))
    return Connect(ip=ip, port=443, attempts=attempts, landmark=landmark)


def pointer(ip: str, name: str) -> Lookup:
    """Return the answer to the question for a router's name."""
    return Lookup(resolver="127.0.0.53", name=ip, qtype="PTR", at_ns=0, answers=(name,))


def measured(
    *,
    traces: Sequence[Trace] = (),
    connects: Sequence[Connect] = (),
    names: Mapping[str, str] | None = None,
    here: tuple[float, float] | None = BERLIN,
    lookups: Sequence[Lookup] = (),
) -> Measurement:
    """Return a measurement of `api.example.com`."""
    return Measurement(
        version="netdiag test",
        target=Target(host="api.example.com", port=443),
        clocks=Clocks(
            monotonic_ns=5_000_000_000,
            realtime_ns=START_NS,
            end_monotonic_ns=7_000_000_000,
            end_realtime_ns=START_NS + 2_000_000_000,
        ),
        vantage=Vantage(
            latitude=here[0] if here else None, longitude=here[1] if here else None, source="given" if here else None
        ),
        traces=tuple(traces),
        connects=tuple(connects),
        lookups=(*lookups, *(pointer(ip, name) for ip, name in (names or {}).items())),
    )


NEW_YORK = [
    ("192.168.77.1", 0.6),
    ("198.18.10.5", 1.5),
    ("198.18.11.5", 80.3),
    None,
    ("198.18.11.9", 80.6),
    ("198.18.40.5", 87.0),
    (IP, 88.1),
]
NEW_YORK_NAMES = {
    "198.18.10.5": "ae1.berlin1.home.test",
    "198.18.11.5": "ae1.newyork1.transit.test",
    "198.18.11.9": "ae2.newyork2.transit.test",
    "198.18.40.5": "ae1.frankfurt1.edge.test",
}


def boomerang() -> Measurement:
    """Return the way from Berlin over New York to Frankfurt."""
    times = [88.1 + 0.1 * at for at in range(12)]
    return measured(traces=[trace(NEW_YORK)], connects=[connect(times, pop="FRA")], names=NEW_YORK_NAMES)


def checked(baseline_ms: float = 12.0) -> dict[str, Any]:
    """Return the document of a check whose way crosses an ocean and comes back."""
    return document.build(examine(boomerang(), Knowledge(), Inputs(baseline_ms=baseline_ms)))
