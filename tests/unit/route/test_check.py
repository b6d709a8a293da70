# SPDX-License-Identifier: Apache-2.0
"""Whom a check sends to: the prober and the names are fakes that write down every address."""

from __future__ import annotations

from dataclasses import replace

import pytest

from netdiag.errors import Unsupported, UsageError
from netdiag.route import check as module
from netdiag.route.check import Plan, check
from netdiag.route.model import Connect, Landmark, Lookup
from netdiag.route.names import Names
from netdiag.route.prober import ConnectRequest, FakeProber, OddRequest, TraceRequest
from tests.fakes.routes import IP, attempt, boomerang, probe, reply

MARK = Landmark(name="home", host="192.0.2.7", port=443, latitude=50.0, longitude=8.0)


class FakeNames(Names):
    """Answers with two addresses; writes down which server was asked what."""

    def __init__(self, found=(IP, "2001:db8::10")):
        super().__init__(0)
        self.found, self.questions = list(found), []

    def addresses(self, host, families):
        self.questions.append(("system", host))
        found = [ip for ip in self.found if (6 if ":" in ip else 4) in families]
        self.lookups.append(Lookup(resolver="system", name=host, qtype="A", at_ns=0, answers=tuple(found)))
        return found

    def ask_all(self, servers, _host, kinds, subnet=None):
        self.questions += [(server, kind) for server in servers for kind in kinds]
        self.subnet = subnet

    def _run(self, jobs):
        pytest.fail(f"these would be sent: {jobs}")

    def pointers(self, server, ips):
        self.questions += [(server, "PTR", ip) for ip in dict.fromkeys(ips)]

    def origins(self, server, ips):
        self.questions += [(server, "origin", ip) for ip in ips]


@pytest.fixture(autouse=True)
def one_resolver(monkeypatch):
    monkeypatch.setattr(module, "system_resolvers", lambda: ("192.0.2.53",))
    monkeypatch.setattr(module, "public_address", lambda _families: None)


def run(plan, names=None):
    prober, names = FakeProber(boomerang()), names or FakeNames()
    return check(plan, prober, names, 0), prober.requests, names


def contacted(requests):
    return {(type(request).__name__, request.ip) for request in requests}


def test_nobody_but_the_target_and_the_resolver_is_asked():
    measurement, requests, names = run(Plan(host="api.example.com"))
    assert {ip for _, ip in contacted(requests)} == {IP, "2001:db8::10"}
    assert {question[0] for question in names.questions} == {"system", "192.0.2.53"}
    assert {row.address for row in measurement.asked} <= {IP, "2001:db8::10"}
    assert {row.purpose for row in measurement.asked} == {"trace", "connect", "https"}


def test_landmarks_only_where_they_are_allowed():
    measurement, requests, _ = run(Plan(host="api.example.com", marks=(MARK,)))
    assert ("ConnectRequest", "192.0.2.7") in contacted(requests)
    assert ("TraceRequest", "192.0.2.7") not in contacted(requests)
    assert ("landmark", "192.0.2.7") in {(row.purpose, row.address) for row in measurement.asked}


def test_offline_is_the_path_alone():
    measurement, requests, names = run(Plan(host=IP, offline=True))
    assert names.questions == []
    assert {ip for _, ip in contacted(requests)} == {IP}
    connects = [request for request in requests if isinstance(request, ConnectRequest)]
    assert all(request.server_name is None and not request.http_attempts for request in connects)
    assert measurement.lookups == ()


def test_offline_cannot_look_up_a_name():
    with pytest.raises(UsageError, match="is a name"):
        run(Plan(host="api.example.com", offline=True))


def test_without_http_there_is_neither_tls_nor_a_request():
    _, requests, _ = run(Plan(host="api.example.com", http=False))
    connects = [request for request in requests if isinstance(request, ConnectRequest)]
    assert connects
    assert all(not request.tls_attempts and not request.http_attempts for request in connects)


def test_enough_source_ports_to_see_a_flip():
    _, requests, _ = run(Plan(host="api.example.com"))
    attempts = sum(request.attempts for request in requests if isinstance(request, ConnectRequest) and request.ip == IP)
    assert attempts >= 11


def test_no_names_of_routers_with_n():
    _, _, names = run(Plan(host="api.example.com", names=False))
    assert not [question for question in names.questions if "PTR" in question]


def test_given_resolvers_are_asked_with_and_without_subnet(monkeypatch):
    monkeypatch.setattr(module, "public_address", lambda _families: "8.8.4.4")
    _, _, names = run(Plan(host="api.example.com", resolvers=("192.0.2.99",), families=(4,)))
    assert ("192.0.2.99", "A") in names.questions
    assert ("192.0.2.99", "HTTPS") in names.questions
    assert names.subnet == "8.8.4.0/24"
    assert {question[0] for question in names.questions} == {"system", "192.0.2.99"}


def test_cymru_is_asked_about_public_routers_only():
    _, _, names = run(Plan(host="api.example.com", origins=True))
    assert not [question for question in names.questions if "origin" in question]


def test_one_path_for_each_ip_version():
    _, requests, _ = run(Plan(host="api.example.com"), FakeNames([IP, "203.0.113.20", "2001:db8::10"]))
    traced = [request.ip for request in requests if isinstance(request, TraceRequest)]
    assert sorted(traced) == ["2001:db8::10", IP]


def test_an_address_needs_no_look_up():
    _, requests, names = run(Plan(host="[2001:db8::10]", names=False))
    assert {ip for _, ip in contacted(requests)} == {"2001:db8::10"}
    assert names.questions == []


def test_a_host_without_an_address():
    with pytest.raises(Unsupported, match="no address"):
        run(Plan(host="api.example.com"), FakeNames([]))


@pytest.mark.parametrize(("host", "families"), [(IP, (6,)), ("2001:db8::10", (4,))])
def test_an_address_of_the_other_version_is_wrong_usage(host: str, families: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=f"no IPv{families[0]} address"):
        run(Plan(host=host, families=families))


def test_only_dns_sees_the_last_dot_of_a_name() -> None:
    measurement, requests, _ = run(Plan(host="api.example.com."))
    assert measurement.target.host == "api.example.com."
    names = {request.server_name for request in requests if isinstance(request, ConnectRequest)}
    assert names == {"api.example.com"}


def test_the_vantage_is_what_the_user_says():
    measurement, _, _ = run(Plan(host=IP, latitude=52.5, longitude=13.4))
    assert (measurement.vantage.latitude, measurement.vantage.source) == (52.5, "given")
    assert run(Plan(host=IP))[0].vantage.source is None


def test_an_opened_connection_counts_once():
    measurement, _, _ = run(Plan(host="api.example.com", families=(4,)))
    (connect,) = measurement.connects
    starts = [attempt.started_ns for attempt in connect.attempts]
    assert starts == sorted(starts)


def test_names_are_asked_for_while_bursts_go_on():
    class Bursts(FakeProber):
        def trace(self, request, *, seen=None):
            seen([probe(3, reply("198.18.0.9", 4.0))], 2)
            return super().trace(request)

    names = FakeNames([IP])
    check(Plan(host="api.example.com", families=(4,)), Bursts(boomerang()), names, 0)
    pointed = [question[2] for question in names.questions if question[1] == "PTR"]
    assert pointed[0] == "198.18.0.9"
    assert IP in pointed


def hung(ip=IP, error="timeout"):
    attempts = tuple(replace(attempt(9.0, port=at), error=error) for at in range(12))
    return Connect(ip=ip, port=443, attempts=attempts)


def odd_requests(plan, connect):
    prober = FakeProber(replace(boomerang(), connects=(connect,)))
    measurement = check(plan, prober, FakeNames([IP]), 0)
    return [request for request in prober.requests if isinstance(request, OddRequest)], measurement


def test_sizes_are_compared_where_every_handshake_hangs_and_only_there():
    (request,), _ = odd_requests(Plan(host="api.example.com"), hung())
    assert (request.ip, request.server_name, request.raw) == (IP, "api.example.com", False)
    assert odd_requests(Plan(host="api.example.com"), hung(error=None))[0] == []
    assert odd_requests(Plan(host="api.example.com", http=False), hung())[0] == []
    assert odd_requests(Plan(host=IP, offline=True), hung())[0] == []


def test_unusual_packets_on_demand_and_no_hello_where_no_request_may_be_sent():
    (request,), _ = odd_requests(Plan(host="api.example.com", odd=True), hung(error=None))
    assert (request.raw, request.server_name) == (True, "api.example.com")
    assert request.last_ttl > 1
    for plan in (Plan(host=IP, offline=True, odd=True), Plan(host="api.example.com", http=False, odd=True)):
        (request,), _ = odd_requests(plan, hung(error=None))
        assert (request.raw, request.server_name) == (True, None)
