# SPDX-License-Identifier: Apache-2.0
"""The fake prober answers from a stored measurement and remembers what was asked."""

from __future__ import annotations

from netdiag.route.model import (
    Attempt,
    Clocks,
    Connect,
    ConnectOutcome,
    Ended,
    Flow,
    Measurement,
    Method,
    Protocol,
    Target,
    Trace,
)
from netdiag.route.prober import ConnectRequest, FakeProber, Prober, TraceRequest

TRACE = Trace(
    ip="192.0.2.1",
    port=443,
    protocol=Protocol.TCP,
    method=Method.TCP_RAW,
    privileged=True,
    started_ns=0,
    duration_ms=1.0,
    flows=(Flow(id=0),),
    single_flow=True,
    probes=(),
    ended=Ended.SILENT,
    wait_ms=1000.0,
)
ATTEMPTS = tuple(
    Attempt(started_ns=at, source_port=at, outcome=ConnectOutcome.ESTABLISHED, connect_ms=1.0) for at in range(5)
)
STORED = Measurement(
    version="1",
    target=Target(host="api.lab.test", port=443),
    clocks=Clocks(monotonic_ns=0, realtime_ns=0, end_monotonic_ns=0, end_realtime_ns=0),
    traces=(TRACE,),
    connects=(Connect(ip="192.0.2.1", port=443, attempts=ATTEMPTS),),
)


def test_a_stored_trace_is_given_again():
    fake: Prober = FakeProber(STORED)
    assert fake.trace(TraceRequest(ip="192.0.2.1")) is TRACE


def test_what_is_not_stored_failed_and_says_so():
    fake = FakeProber(STORED)
    trace = fake.trace(TraceRequest(ip="192.0.2.1", protocol=Protocol.ICMP))
    assert (trace.ended, trace.port, trace.probes) == (Ended.FAILED, None, ())
    assert trace.error is not None
    assert fake.connect(ConnectRequest(ip="192.0.2.2")).attempts == ()


def test_no_more_attempts_than_were_asked_for():
    fake = FakeProber(STORED)
    request = ConnectRequest(ip="192.0.2.1", attempts=2, landmark="near")
    answer = fake.connect(request)
    assert (answer.attempts, answer.landmark) == (ATTEMPTS[:2], "near")
    assert fake.requests == [request]
