# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import dns.message
import dns.rcode
import pytest

from netdiag.lab.name_settings import NameSettings
from netdiag.lab.names import NameServer

HOSTS = {"api.test": ["192.0.2.1", "192.0.2.2", "2001:db8::1"]}


@pytest.fixture
def ask(tmp_path):
    """Return a function that asks a server with these settings and returns the parsed answer, None without one."""
    servers = {}

    def asked(name, qtype="A", transport="udp", **settings):
        key = json.dumps(settings, sort_keys=True)
        if key not in servers:
            servers[key] = NameServer(NameSettings.read({"hosts": HOSTS} | settings), tmp_path / "facts.jsonl")
        answer = servers[key].answer(dns.message.make_query(name, qtype).to_wire(), transport)
        return None if answer is None else dns.message.from_wire(answer)

    return asked


def addresses(answer):
    return [str(item) for section in answer.answer for item in section if section.rdtype in (1, 28)]


def test_both_families(ask):
    assert sorted(addresses(ask("api.test"))) == ["192.0.2.1", "192.0.2.2"]
    assert addresses(ask("API.test", "AAAA")) == ["2001:db8::1"]


def test_what_is_not_there_and_what_fails(ask):
    assert ask("no.test").rcode() == dns.rcode.NXDOMAIN
    assert ask("api.test", errors={"api.test": "SERVFAIL"}).rcode() == dns.rcode.SERVFAIL


def test_an_alias_leads_on(ask):
    answer = ask("www.test", aliases={"www.test": "api.test"})
    assert answer.answer[0].rdtype == 5
    assert sorted(addresses(answer)) == ["192.0.2.1", "192.0.2.2"]


def test_the_first_address_takes_turns(ask):
    first = [next(iter(ask("api.test", rotate=True).answer[0])).address for _ in range(2)]
    assert set(first) <= {"192.0.2.1", "192.0.2.2"}


def test_a_cut_answer_is_whole_over_tcp(ask):
    assert ask("api.test", truncate=True).flags & dns.flags.TC
    assert len(addresses(ask("api.test", transport="tcp", truncate=True))) == 2


def test_lost_questions(ask, tmp_path):
    assert ask("api.test", lose=1) is None
    assert ask("api.test", lose=1) is not None
    facts = [json.loads(line) for line in (tmp_path / "facts.jsonl").read_text().splitlines()]
    assert [fact["code"] for fact in facts] == [None, 0]


def test_no_question_gets_no_answer(tmp_path):
    server = NameServer(NameSettings(), tmp_path / "facts.jsonl")
    assert server.answer(b"GET / HTTP/1.1\r\n\r\n", "udp") is None
