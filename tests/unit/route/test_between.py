# SPDX-License-Identifier: Apache-2.0
"""What is asked while a trace waits: the prober and the names are fakes that write down what they are asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from netdiag.route import between as module
from netdiag.route.between import Between
from netdiag.route.model import Ended, Kind, Protocol
from netdiag.route.names import Names
from netdiag.route.plan import Plan
from netdiag.route.prober import FakeProber
from tests.fakes.routes import IP, boomerang, probe, reply, trace

TARGET = reply(IP, 20.0, Kind.SYN_ACK)


class Asked(Names):
    def __init__(self):
        super().__init__(0)
        self.questions = []

    def pointers(self, server, ips):
        self.questions.append((server, list(ips)))

    def addresses(self, host, families):
        pytest.fail(f"the system's resolver would be asked for {host} {families}")

    def _run(self, jobs):
        pytest.fail(f"these would be sent: {jobs}")


@pytest.fixture(autouse=True)
def one_resolver(monkeypatch):
    monkeypatch.setattr(module, "system_resolvers", lambda: ("192.0.2.53",))


def asked(probes, left=1, **plan):
    """Return the questions for names, and the traces that were asked for, after one burst."""
    prober, names = FakeProber(boomerang()), Asked()
    with Between(Plan(host="api.example.com", **plan), prober, names) as between:
        between.told(IP)(probes, left)
    return names.questions, prober.requests


def hops(*kinds):
    """Return a probe for each hop: True answered, False silent; the target is the last."""
    found = [probe(n, reply(f"198.51.100.{n}", 1.0 * n) if here else None) for n, here in enumerate(kinds, start=1)]
    return [*found, probe(len(kinds) + 1, TARGET)]


def test_names_are_asked_of_the_first_resolver_for_what_answered():
    names, _ = asked(hops(True, False, True, True, True))
    assert names == [("192.0.2.53", ["198.51.100.1", "198.51.100.3", "198.51.100.4", "198.51.100.5", IP])]
    assert asked(hops(True), resolvers=("192.0.2.1", "192.0.2.2"))[0][0][0] == "192.0.2.1"


@pytest.mark.parametrize("plan", [{"names": False}, {"offline": True}, {"offline": True, "resolvers": ("192.0.2.1",)}])
def test_names_are_not_asked_where_nobody_wants_them(plan):
    assert asked(hops(True, True, True, True), **plan)[0] == []


def test_silent_hops_before_the_target_are_asked_by_other_protocols():
    _, requests = asked(hops(True, False, True, False, True))
    assert [(one.protocol, one.only) for one in requests] == [(Protocol.UDP, (2, 4)), (Protocol.ICMP, (2, 4))]
    assert {one.ip for one in requests} == {IP}


def test_a_way_without_silence_needs_no_other_protocol():
    assert asked(hops(True, True, True, True))[1] == []


def test_a_target_that_is_suspiciously_near_is_asked_the_whole_way():
    _, requests = asked(hops(True, True))
    assert [one.only for one in requests] == [(), ()]


def test_without_a_target_the_hop_behind_the_last_answer_is_the_end():
    probes = [
        probe(1, reply("198.51.100.1", 1.0)),
        probe(2, None),
        probe(3, reply("198.51.100.3", 3.0)),
        probe(4, None),
    ]
    assert {one.only for one in asked(probes)[1]} == {(2,)}


def test_probes_with_a_wide_ttl_tell_no_distance():
    far = replace(probe(2, TARGET), far=True)
    assert asked([*hops(True, True, True, True), far])[1] == []


@pytest.mark.parametrize(("left", "protocol"), [(2, Protocol.TCP), (0, Protocol.TCP), (1, Protocol.UDP)])
def test_it_is_done_once_and_for_tcp_alone(left, protocol):
    assert asked(hops(True, False, True, True, True), left, protocol=protocol)[1] == []


def test_at_most_24_silent_hops_are_asked():
    _, requests = asked(hops(*[False] * 30, True))
    assert {len(one.only) for one in requests} == {24}


def test_traces_that_could_not_be_sent_are_left_out():
    good = replace(trace([("198.51.100.2", 2.0)]), protocol=Protocol.UDP)
    bad = replace(good, protocol=Protocol.ICMP, ended=Ended.FAILED)
    with Between(Plan(host="a"), FakeProber(replace(boomerang(), traces=(good, bad))), Asked()) as between:
        between.told(IP)(hops(True, False, True, True), 1)
    assert [one.protocol for one in between.traces()] == [Protocol.UDP]
