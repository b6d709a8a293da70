# SPDX-License-Identifier: Apache-2.0
"""Questions go to a name server of the test on loopback; port and timeouts are made small, nothing else is changed."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import dns.message
import dns.query
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route import names as module
from netdiag.route.names import MOST_POINTERS, Names, subnet_of
from netdiag.route.vantage import point_of

SERVER = "127.0.0.1"
RECORDS = {
    ("api.example.com.", "A"): ["203.0.113.10", "203.0.113.20"],
    ("api.example.com.", "AAAA"): ["2001:db8::10"],
    ("api.example.com.", "HTTPS"): ["1 . alpn=h2,h3"],
    (f"{point_of('198.18.0.1')}.", "PTR"): [r"evil\027[31m.\"quoted.example."],
    ("1.0.18.198.origin.asn.cymru.com.", "TXT"): ['"64500 | 198.18.0.0/24 | ZZ | lab | 2026-01-01"'],
    ("as64500.asn.cymru.com.", "TXT"): ['"64500 | ZZ | lab | 2026-01-01 | HOME"'],
}


class Server:
    """Answers from `RECORDS`, and remembers what it was asked."""

    def __init__(self):
        self.asked = []
        self.raw = None
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind((SERVER, 0))
        self.port = self._sock.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def close(self):
        self._sock.close()

    def _run(self):
        with suppress(OSError):
            while True:
                data, client = self._sock.recvfrom(4096)
                self._sock.sendto(self.raw if self.raw is not None else self._answer(data), client)

    def _answer(self, data):
        query = dns.message.from_wire(data)
        question = query.question[0]
        kind = dns.rdatatype.to_text(question.rdtype)
        options = [option.to_text() for option in query.options]
        self.asked.append((question.name.to_text(), kind, options))
        reply = dns.message.make_response(query)
        rows = RECORDS.get((question.name.to_text().lower(), kind))
        if rows is None:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        else:
            reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", kind, *rows))
        return reply.to_wire()


@pytest.fixture
def server(monkeypatch):
    made = Server()
    monkeypatch.setattr(module, "_PORT", made.port)
    yield made
    made.close()


@pytest.fixture
def names():
    return Names(0, timeout_s=0.3)


def test_all_kinds_of_records(server, names):
    names.ask_all([SERVER], "api.example.com", ["A", "AAAA", "HTTPS"])
    assert {look.qtype: set(look.answers) for look in names.lookups} == {
        "A": {"203.0.113.10", "203.0.113.20"},
        "AAAA": {"2001:db8::10"},
        "HTTPS": {'1 . alpn="h2,h3"'},
    }
    assert all(look.error is None and look.duration_ms is not None for look in names.lookups)
    (row,) = names.asked
    assert (row.purpose, row.address, row.port, row.count) == ("dns", SERVER, server.port, 3)


def test_with_a_client_subnet(server, names):
    names.ask_all([SERVER], "api.example.com", ["A", "HTTPS"], "198.51.100.0/24")
    assert sorted(bool(options) for _, _, options in server.asked) == [False, False, True]
    assert [look.subnet for look in names.lookups] == [None, None, "198.51.100.0/24"]


def test_names_of_routers_keep_their_escapes(server, names):
    names.pointers(SERVER, ["198.18.0.1", "198.18.0.1", "198.18.0.2"])
    first, second = names.lookups
    assert first.answers == (r"evil\027[31m.\"quoted.example",)
    assert "\x1b" not in first.answers[0]
    assert (second.answers, second.error) == ((), "NXDOMAIN")
    assert len(server.asked) == 2


def test_no_more_names_than_the_limit(server, names):
    names.pointers(SERVER, [f"198.18.{at // 250}.{at % 250}" for at in range(MOST_POINTERS + 50)])
    assert len(server.asked) == MOST_POINTERS


def test_origins_by_dns(server, names):
    names.origins(SERVER, ["198.18.0.1"])
    assert [name for name, _, _ in server.asked] == ["1.0.18.198.origin.asn.cymru.com.", "AS64500.asn.cymru.com."]


def test_a_server_that_does_not_answer_costs_its_timeout(names, monkeypatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind((SERVER, 0))
        monkeypatch.setattr(module, "_PORT", mute.getsockname()[1])
        names.ask_all([SERVER], "api.example.com", ["A"])
    assert names.lookups[0].error == "timeout"


@pytest.mark.parametrize("raw", [b"", b"x", bytes(12), bytes(600)])
def test_garbage_is_an_error_of_that_question(server, names, raw):
    server.raw = raw
    names.ask_all([SERVER], "api.example.com", ["A"])
    assert names.lookups[0].error is not None
    assert names.lookups[0].answers == ()


@pytest.mark.fuzz
@given(st.binary(max_size=300))
def test_any_reply_is_taken_or_refused(data):
    """A reply that does not fit its question is no answer; one that does is cut to size."""
    with suppress(dns.exception.DNSException, ValueError):
        reply = dns.message.from_wire(data)
        answers = module._answers(reply, "PTR")
        assert len(answers) <= 32
        assert all(len(answer) <= 512 for answer in answers)


def test_the_systems_resolver_is_named_as_asked(names, monkeypatch):
    monkeypatch.setattr(module, "system_resolvers", lambda: ("192.0.2.53",))
    found = [
        (socket.AF_INET6, 1, 6, "", ("2001:db8::10", 0, 0, 0)),
        (socket.AF_INET, 1, 6, "", ("203.0.113.10", 0)),
        (socket.AF_INET, 1, 6, "", ("203.0.113.10", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_named: found)
    assert names.addresses("api.example.com", (4, 6)) == ["203.0.113.10", "2001:db8::10"]
    assert names.addresses("api.example.com", (6,)) == ["2001:db8::10"]
    assert [row.address for row in names.asked] == ["192.0.2.53"]


def test_a_name_that_does_not_exist(names, monkeypatch):
    def fails(*_args, **_named):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    assert names.addresses("nope.example", (4,)) == []
    assert names.lookups[0].error == "Name or service not known"


def test_servers_that_may_have_been_asked_are_named_too(names, monkeypatch):
    def fails(*_args, **_named):
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(module, "system_resolvers", lambda: ("192.0.2.53", "192.0.2.54"))
    monkeypatch.setattr(socket, "getaddrinfo", fails)
    names.addresses("api.example.com", (4,))
    assert [row.address for row in names.asked] == ["192.0.2.53", "192.0.2.54"]


def test_subnets():
    assert subnet_of("8.8.8.8") == "8.8.8.0/24"
    assert subnet_of("2606:4700:1:2:3::1") == "2606:4700:1::/56"
    assert subnet_of("192.168.1.1") is None
