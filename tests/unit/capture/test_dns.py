# SPDX-License-Identifier: Apache-2.0
"""DNS messages of a capture become the look-ups that a live trace tells of the same."""

from __future__ import annotations

import random
import struct
from typing import Any

import dns.message
import dns.rrset
import pytest

from netdiag.addresses import from_text
from netdiag.capture.dns import DnsDatagrams, DnsStreams
from netdiag.capture.sink import Chunk, Datagram, Harvest, Stream
from netdiag.recording.reader import Recording
from netdiag.tables import build
from tests.fakes.mangle import COUNT, mangled

CLIENT, SERVER = (from_text("192.0.2.1"), 40000), (from_text("192.0.2.53"), 53)
MS = 1_000_000
HEADER = {"clock": {"monotonic_ns": 0, "realtime_ns": 0, "boottime_ns": 0}, "host": {}, "target": {}}


def question(name: str = "api.example.test", qtype: str = "A", number: int = 7) -> bytes:
    message = dns.message.make_query(name, qtype)
    message.id = number
    return message.to_wire()


def answer(asked: bytes, *lines: str) -> bytes:
    message = dns.message.make_response(dns.message.from_wire(asked))
    for line in lines:
        name, ttl, *rest = line.split()
        message.answer.append(dns.rrset.from_text(name, int(ttl), *rest))
    return message.to_wire()


ASKED = question()
ANSWERED = answer(ASKED, "api.example.test. 60 IN A 192.0.2.7")


def datagram(at_ms: float, data: bytes, *, sent: bool, client=CLIENT) -> Datagram:
    ends = (client, SERVER) if sent else (SERVER, client)
    at = round(at_ms * MS)
    return Datagram(at_ns=at, source=ends[0], destination=ends[1], length=len(data), data=memoryview(data))


def looked_up(harvest: Harvest) -> list[dict[Any, Any]]:
    runs = {name: [records] for name, records in harvest.records.items()}
    end = {"exit_reason": "end-of-file", "at_ns": 10**10}
    recording = Recording(
        header=HEADER, layouts=dict(harvest.layouts), runs=runs, facts=[dict(fact) for fact in harvest.facts], end=end
    )
    return build(recording).resolutions.to_dict("records")


def over_udp(*datagrams: Datagram) -> list[dict[Any, Any]]:
    sink = DnsDatagrams()
    for one in datagrams:
        sink.datagram(one)
    return looked_up(sink.finish())


def test_a_question_and_its_answer_are_a_look_up():
    (row,) = over_udp(datagram(5, ASKED, sent=True), datagram(17, ANSWERED, sent=False))
    assert (row["name"], row["qtype"], row["source"], row["transport"]) == ("api.example.test", "A", "wire", "udp")
    assert (row["answers"], row["ttl_s"], row["server"]) == (["192.0.2.7"], 60, "192.0.2.53")
    assert (row["started_ns"], row["duration_ms"], row["attempts"]) == (5 * MS, 12, 1)
    assert row["pid"] != row["pid"]


def test_the_same_datagram_captured_twice_is_one():
    twice = [datagram(5, ASKED, sent=True), datagram(5.02, ASKED, sent=True)]
    (row,) = over_udp(*twice, datagram(9, ANSWERED, sent=False), datagram(9.1, ANSWERED, sent=False))
    assert row["attempts"] == 1
    (row,) = over_udp(
        datagram(5, ASKED, sent=True), datagram(5005, ASKED, sent=True), datagram(5009, ANSWERED, sent=False)
    )
    assert row["attempts"] == 2


def test_what_is_no_message_is_left_out():
    assert over_udp(datagram(1, b"\x16\x03\x01 no question", sent=True), datagram(2, b"", sent=False)) == []
    assert over_udp(datagram(1, ANSWERED, sent=True), datagram(2, ASKED, sent=False)) == []


def stream_rows(pieces: list[tuple[float, bool, int, bytes]], *, whole: bool = True) -> list[dict[Any, Any]]:
    sink = DnsStreams()
    stream = Stream(cookie=3, speaks=5, client=CLIENT, server=SERVER, offsets=(0, 0), whole=whole, began_ns=0)
    handler = sink.begin(stream)
    if handler is None:
        return []
    for at_ms, sent, offset, data in pieces:
        chunk = Chunk(at_ns=round(at_ms * MS), send=sent, offset=offset, length=len(data), data=memoryview(data))
        handler.feed([chunk])
    handler.end(10**9)
    return looked_up(sink.finish())


def test_messages_over_tcp_are_put_together():
    many = answer(ASKED, *(f"api.example.test. 60 IN A 192.0.2.{n}" for n in range(1, 100)))
    sent, back = (struct.pack(">H", len(data)) + data for data in (ASKED, many))
    assert len(back) > 1500
    (row,) = stream_rows([(1, True, 0, sent), (5, False, 0, back[:700]), (6, False, 700, back[700:])])
    assert len(row["answers"]) == 99
    assert (row["transport"], row["duration_ms"]) == ("tcp", 5)


def test_streams_to_other_ports_and_from_the_middle_are_left_alone():
    assert stream_rows([(1, True, 0, ASKED)], whole=False) == []
    other = Stream(cookie=3, speaks=5, client=CLIENT, server=(SERVER[0], 54), offsets=(0, 0), whole=True, began_ns=0)
    assert DnsStreams().begin(other) is None


def test_a_flood_is_bounded_and_told(monkeypatch):
    monkeypatch.setattr("netdiag.capture.dns._MOST", 10)
    sink = DnsDatagrams()
    for number in range(25):
        sink.datagram(datagram(number * 10, question(number=number), sent=True))
    harvest = sink.finish()
    assert harvest.facts == [{"kind": "loss", "probe": "dns_message", "seen": 10, "lost": 15}]
    assert len(harvest.records["dns_message"]) == 10


@pytest.mark.fuzz
def test_mangled_messages_do_no_harm():
    draw = random.Random(2)
    rows = 0
    for data in mangled([ASKED, ANSWERED], max(COUNT // 20, 50)):
        said = [draw.choice([data, ASKED, ANSWERED]) for _ in range(6)]
        mixed = [datagram(draw.randrange(50), one, sent=draw.random() < 0.5) for one in said]
        rows += len(over_udp(*mixed))
        stream_rows([(1, True, 0, data), (2, False, draw.randrange(9), data)])
    assert rows > 0
