# SPDX-License-Identifier: Apache-2.0
"""Whom a check sends to: the prober and the names are fakes that write down every address."""

from __future__ import annotations

import pytest

from netdiag.errors import NetdiagError, UsageError
from netdiag.route import check as module
from netdiag.route.check import Plan, check
from netdiag.route.model import Landmark, Lookup
from netdiag.route.prober import ConnectRequest, FakeProber, TraceRequest
from tests.fakes.routes import IP, boomerang

MARK = Landmark(name="home", host="192.0.2.7", port=443, latitude=50.0, longitude=8.0)


class FakeNames:
    """Answers with two addresses; writes down which server was asked what."""

    def __init__(self, found=(IP, "2001:db8::10")):
        self.found, self.lookups, self.questions = list(found), [], []
        self.asked = ()

    def addresses(self, host, families):
        self.questions.append(("system", host))
        found = [ip for ip in self.found if (6 if ":" in ip else 4) in families]
        self.lookups.append(Lookup(resolver="system", name=host, qtype="A", at_ns=0, answers=tuple(found)))
        return found

    def ask_all(self, servers, _host, kinds, subnet=None):
        self.questions += [(server, kind) for server in servers for kind in kinds]
        self.subnet = subnet

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
    with pytest.raises(NetdiagError, match="no address"):
        run(Plan(host="api.example.com"), FakeNames([]))


def test_the_vantage_is_what_the_user_says():
    measurement, _, _ = run(Plan(host=IP, latitude=52.5, longitude=13.4))
    assert (measurement.vantage.latitude, measurement.vantage.source) == (52.5, "given")
    assert run(Plan(host=IP))[0].vantage.source is None


def test_an_opened_connection_counts_once():
    measurement, _, _ = run(Plan(host="api.example.com", families=(4,)))
    (connect,) = measurement.connects
    starts = [attempt.started_ns for attempt in connect.attempts]
    assert starts == sorted(starts)
