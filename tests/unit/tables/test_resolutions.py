# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import dns.message
import dns.rcode
import dns.rrset
import pytest

from netdiag.tables import build
from netdiag.tables.resolutions import looks_numeric
from netdiag.testing import START_NS, RecordingBuilder


class Wire(RecordingBuilder):
    """Builds what the dns probe records; times in milliseconds, messages by another library than netdiag's."""

    def ask(self, at, name, qtype="A", *, ident=7, cookie=1, tcp=False, pid=100, tid=100):
        query = dns.message.make_query(name, qtype, id=ident)
        return self.message(at, query.to_wire(), sent=True, cookie=cookie, tcp=tcp, pid=pid, tid=tid)

    def tell(self, at, name, qtype="A", answers=(), *, ident=7, cookie=1, tcp=False, code="NOERROR", ttl=60, cut=False):
        reply = dns.message.make_response(dns.message.make_query(name, qtype, id=ident))
        reply.set_rcode(dns.rcode.from_text(code))
        if answers:
            reply.answer.append(dns.rrset.from_text(f"{name}.", ttl, "IN", qtype, *answers))
        if cut:
            reply.flags |= dns.flags.TC
        return self.message(at, reply.to_wire(), sent=False, cookie=cookie, tcp=tcp)

    def message(self, at, data, *, sent, cookie, tcp=False, raw=False, pid=100, tid=100, offset=0, copied=512):
        data = len(data).to_bytes(2, "big") + data if tcp and not raw else data
        kept = data[:copied]
        return self.record(
            "dns_message", time=START_NS + round(at * 1e6), cookie=cookie, tgid=pid, tid=tid, length=len(data),
            copied=len(kept), direction=1 if sent else 2, transport=2 if tcp else 1, remote="10.0.0.53",
            data=list(kept.ljust(512, b"\0")), offset=offset,
        )  # fmt: skip

    def look_up(self, at, took, name, addresses=(), *, result=0, kind=1, pid=100, tid=100, family=0):
        members = {f"address_{number + 1}": address for number, address in enumerate(addresses)}
        return self.record(
            "name_lookup", time=START_NS + round((at + took) * 1e6), started=START_NS + round(at * 1e6), tgid=pid,
            tid=tid, result=result, kind=kind, ok=int(result == 0), count=len(addresses), name=name, family=family,
            **members,
        )  # fmt: skip

    def rows(self, end_at=10_000):
        return build(self.recording(end_at=end_at)).resolutions.to_dict("records")


@pytest.fixture
def wire():
    return Wire()


def test_an_answer_on_the_wire(wire):
    (row,) = wire.ask(10, "api.test").tell(35, "api.test", answers=["192.0.2.1", "192.0.2.2"]).rows()
    assert (row["name"], row["qtype"], row["source"], row["transport"]) == ("api.test", "A", "wire", "udp")
    assert row["duration_ms"] == pytest.approx(25)
    assert sorted(row["answers"]) == ["192.0.2.1", "192.0.2.2"]
    assert (row["error"], row["ttl_s"]) == (None, 60)
    assert (row["server"], row["attempts"], row["truncated"]) == ("10.0.0.53", 1, False)


def test_families_are_two_rows_and_names_lose_their_case(wire):
    wire.ask(10, "Api.Test").ask(10.1, "Api.Test", "AAAA", ident=8)
    wire.tell(30, "api.test", answers=["192.0.2.1"]).tell(90, "api.test", "AAAA", ident=8)
    rows = wire.rows()
    assert [(row["qtype"], row["answers"]) for row in rows] == [("A", ["192.0.2.1"]), ("AAAA", [])]
    assert [row["name"] for row in rows] == ["api.test"] * 2


@pytest.mark.parametrize(("ident", "again"), [(7, 300), (8, 5000)], ids=["the same number", "another one, later"])
def test_a_question_that_is_asked_again_is_one_row(wire, ident, again):
    wire.ask(0, "api.test").ask(again, "api.test", ident=ident, cookie=2)
    (row,) = wire.tell(again + 20, "api.test", answers=["192.0.2.1"], ident=ident, cookie=2).rows()
    assert (row["attempts"], row["error"], row["duration_ms"]) == (2, None, pytest.approx(again + 20))


def test_two_questions_at_once_are_two_rows(wire):
    wire.ask(0, "api.test", ident=1).ask(0.3, "api.test", ident=2, cookie=2)
    wire.tell(20, "api.test", answers=["192.0.2.1"], ident=2, cookie=2).tell(40, "api.test", ident=1)
    assert [row["duration_ms"] for row in wire.rows()] == [pytest.approx(40), pytest.approx(19.7)]


def test_an_answer_that_did_not_fit_goes_on_over_tcp(wire):
    wire.ask(0, "big.test").tell(20, "big.test", cut=True)
    wire.ask(21, "big.test", ident=9, cookie=5, tcp=True)
    (row,) = wire.tell(62, "big.test", answers=["192.0.2.9"], ident=9, cookie=5, tcp=True).rows()
    assert (row["truncated"], row["transport"], row["attempts"]) == (True, "tcp", 1)
    assert row["duration_ms"] == pytest.approx(62)


def test_a_stream_in_pieces(wire):
    query = dns.message.make_query("big.test", "A", id=9).to_wire()
    whole = len(query).to_bytes(2, "big") + query
    for at, (start, stop) in enumerate([(0, 2), (2, 14), (14, len(whole))]):
        wire.message(at, whole[start:stop], sent=True, cookie=5, offset=start, tcp=True, raw=True)
    (row,) = wire.tell(50, "big.test", answers=["192.0.2.9"], ident=9, cookie=5, tcp=True).rows()
    assert row["duration_ms"] == pytest.approx(50)


def test_silence_is_a_failure_only_when_it_lasts(wire):
    wire.ask(0, "lost.test").ask(9_900, "late.test", ident=2)
    assert [(row["name"], row["error"]) for row in wire.rows()] == [("lost.test", "timeout"), ("late.test", None)]
    assert all(math.isnan(row["duration_ms"]) for row in wire.rows())


@pytest.mark.parametrize("code", ["NXDOMAIN", "SERVFAIL", "REFUSED"])
def test_errors_have_their_names(wire, code):
    (row,) = wire.ask(0, "no.test").tell(5, "no.test", code=code).rows()
    assert (row["error"], row["answers"]) == (code, [])


def test_an_answer_of_a_stranger_is_none(wire):
    (row,) = wire.ask(0, "api.test").tell(5, "api.test", answers=["192.0.2.1"], ident=99).rows()
    assert (row["answers"], row["error"]) == ([], "timeout")


def test_a_call_of_the_c_library_owns_its_questions(wire):
    wire.look_up(0, 50, "api", ["192.0.2.1", "2001:db8::1"])
    wire.ask(1, "api.corp.test").tell(20, "api.corp.test", code="NXDOMAIN")
    wire.ask(21, "api", ident=8).tell(49, "api", answers=["192.0.2.1"], ident=8, ttl=30)
    wire.ask(30, "api", ident=9, cookie=3, tid=200)
    rows = wire.rows()
    assert [row["part_of"] for row in rows[1:]] == [0, 0, pytest.approx(math.nan, nan_ok=True)]
    assert (rows[0]["qtype"], rows[0]["source"], rows[0]["duration_ms"]) == ("A+AAAA", "libc", pytest.approx(50))
    assert (rows[0]["answers"], rows[0]["ttl_s"]) == (["192.0.2.1", "2001:db8::1"], 30)


def test_a_failed_call_says_what_the_servers_said(wire):
    wire.look_up(0, 50, "no.test", result=-2).ask(1, "no.test").tell(20, "no.test", code="NXDOMAIN")
    wire.look_up(100, 50, "other.test", result=-3)
    assert [row["error"] for row in wire.rows() if row["source"] == "libc"] == ["NXDOMAIN", "EAI_AGAIN"]


def test_numbers_in_the_place_of_names_are_no_look_ups(wire):
    for number, name in enumerate(["127.0.0.1", "::1", "fe80::1%eth0", "127.1", "0x7f000001"]):
        wire.look_up(number, 0.01, name, ["127.0.0.1"])
    assert wire.rows() == []


@pytest.mark.parametrize("name", ["1e100.net", "3com.com", "a.1", "localhost", "api-1", "1.2.3.4.5"])
def test_names_with_digits_are_names(name):
    assert not looks_numeric(name)


def test_the_name_of_an_address(wire):
    (row,) = wire.look_up(0, 3, "", ["192.0.2.1"], kind=2).rows()
    assert (row["name"], row["qtype"], row["answers"]) == ("192.0.2.1", "PTR", [])


def test_bytes_that_are_no_message_are_left_out(wire):
    wire.message(0, b"\xff" * 40, sent=True, cookie=1).message(1, b"", sent=False, cookie=1)
    wire.message(2, b"\xff" * 40, sent=True, cookie=2, tcp=True)
    assert wire.rows() == []


def test_of_a_long_answer_what_was_copied_counts(wire):
    many = [f"192.0.2.{number}" for number in range(1, 61)]
    wire.ask(0, "big.test", cookie=5, tcp=True).tell(9, "big.test", answers=many, cookie=5, tcp=True)
    (row,) = wire.rows()
    assert 20 < len(row["answers"]) < 60
    assert (row["error"], row["duration_ms"]) == (None, pytest.approx(9))


def test_when_one_family_does_not_fit_both_go_over_tcp(wire):
    wire.ask(0, "big.test").ask(0.1, "big.test", "AAAA", ident=8).tell(20, "big.test", cut=True)
    wire.ask(21, "big.test", cookie=5, tcp=True).ask(21.1, "big.test", "AAAA", ident=8, cookie=6, tcp=True)
    wire.tell(40, "big.test", answers=["192.0.2.9"], cookie=5, tcp=True)
    wire.tell(41, "big.test", "AAAA", ident=8, cookie=6, tcp=True)
    assert [(row["truncated"], row["attempts"], row["error"]) for row in wire.rows()] == [(True, 1, None)] * 2
