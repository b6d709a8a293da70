# SPDX-License-Identifier: Apache-2.0
"""What a connection speaks, and who is fed which of its bytes."""

from __future__ import annotations

import sys

import pytest

from netdiag.capture.sink import Harvest
from netdiag.tables.codes import RecordType, WireClass
from tests.fakes import packets as p
from tests.unit.capture.capturing import connection, read, records

HELLO = p.record(22, b"\x01\0\0\x26" + bytes(38), version=1)
ANSWER = p.record(22, b"\x02\0\0\x26" + bytes(38))


class Ear:
    """A sink that remembers."""

    def __init__(self):
        self.began, self.heard, self.ended = [], [], []
        self.secret = []

    def secrets(self, kind, data):
        self.secret.append((kind, data))

    def begin(self, stream):
        self.began.append(stream)
        return _Handler(self, len(self.began) - 1)

    def finish(self):
        return Harvest(facts=[{"kind": "heard", "streams": len(self.began)}])


class _Handler:
    def __init__(self, ear, number):
        self._ear, self._number = ear, number

    def feed(self, chunks):
        self._ear.heard += [(self._number, c.send, c.offset, c.length, bytes(c.data)) for c in chunks]

    def end(self, _, *, clean=None):  # noqa: ARG002
        self._ear.ended.append(self._number)


@pytest.fixture
def ear(monkeypatch):
    one = Ear()
    reading = sys.modules["netdiag.capture.read"]
    monkeypatch.setattr(reading, "stream_sinks", lambda _: [one])
    monkeypatch.setattr(reading, "datagram_sinks", lambda _: [])
    return one


def classes(data):
    return [row["first"] for row in records(data) if row["type"] == RecordType.CLASS]


def spoken(first, answer=b"ok, fine"):
    return p.Talk().open().ask(first, answer).close().file()


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (p.REQUEST, [WireClass.HTTP1]),
        (b"POST /v1/chat/completions HTTP/1.1\r\n\r\n", [WireClass.HTTP1]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [WireClass.HTTP2]),
        (HELLO, [WireClass.TLS]),
        (b"\x80\x2e\x01\x03\x01" + bytes(43), [WireClass.TLS]),
        (b"something else", [WireClass.OTHER]),
    ],
)
def test_the_first_bytes_tell(first, expected):
    assert classes(spoken(first)) == expected


def test_a_proxy_is_asked_before_the_handshake(ear):
    talk = p.Talk(server=("10.0.0.2", 3128)).open()
    talk.ask(b"CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 ok\r\n\r\n").ask(HELLO, ANSWER).close()
    assert classes(talk.file()) == [WireClass.CONNECT, WireClass.TLS]
    assert [stream.speaks for stream in ear.began[:2]] == [WireClass.CONNECT, WireClass.TLS]
    assert ear.began[1].offsets == (40, 19)
    assert ear.ended[:2] == [0, 1]
    row = connection(talk.file())
    assert bool(row.encrypted)


def test_starttls_begins_where_it_begins(ear):
    talk = p.Talk(server=("10.0.0.2", 587)).open()
    talk.say(False, b"220 mail ready\r\n", after=0.01)
    talk.ask(b"EHLO me\r\n", b"250 STARTTLS\r\n").ask(b"STARTTLS\r\n", b"220 go on\r\n").ask(HELLO, ANSWER).close()
    assert [row["type"] for row in records(talk.file())][-2:] == [22, 22]
    assert ear.began[1].speaks == WireClass.TLS
    assert ear.began[1].offsets == (19, 41)


def test_a_sink_is_fed_every_byte_once_and_in_order(ear):
    talk = p.Talk(server=("10.0.0.2", 80)).open()
    talk.say(True, p.REQUEST, after=0.01)
    start = talk.seqs[1]
    for offset, part in ((0, b"aaa"), (6, b"ccc"), (0, b"aaa"), (3, b"bbb"), (9, b"ddd")):
        talk.say(False, part, after=0.2, seq=start + offset)
    read(talk.file())
    assert ear.heard[0] == (0, True, 0, len(p.REQUEST), p.REQUEST)
    assert [(offset, data) for _, send, offset, _, data in ear.heard if not send] == [
        (0, b"aaa"), (3, b"bbb"), (6, b"ccc"), (9, b"ddd"),
    ]  # fmt: skip
    assert ear.ended == [0]


def test_what_never_came_shows_as_a_jump(ear):
    talk = p.Talk(server=("10.0.0.2", 80)).open()
    talk.say(True, p.REQUEST, after=0.01)
    talk.say(False, b"aaa", after=0.01)
    talk.say(False, b"lost", after=0.01, lost=True)
    talk.say(False, b"ccc", after=0.01)
    talk.say(True, after=0.01)
    read(talk.file())
    assert [(offset, data) for _, send, offset, _, data in ear.heard if not send] == [(0, b"aaa"), (7, b"ccc")]


def test_a_connection_met_in_the_middle_is_said_not_to_be_whole(ear):
    talk = p.Talk(server=("10.0.0.2", 80)).open().ask(p.REQUEST, p.ANSWER)
    read(p.pcap(talk.packets[3:]))
    assert [stream.whole for stream in ear.began] == [False]
    assert ear.began[0].client == (bytes(10) + b"\xff\xff\x0a\0\0\x01", 40000)


def test_who_asks_is_the_client_also_at_odd_ports():
    """Of a connection that is older than the file, what is said goes before what its ports suggest."""
    talk = p.Talk(client=("10.0.0.1", 500), server=("10.0.0.2", 50_000)).open().ask(p.REQUEST, p.ANSWER)
    row = connection(p.pcap(talk.packets[3:]))
    assert (row.role, row.local_port, bool(row.preexisting)) == ("client", 500, True)
    talk = (
        p.Talk(client=("10.0.0.1", 50_000), server=("10.0.0.2", 443)).open().ask(b"\x17\x03\x03\0\x09" + bytes(9), b"x")
    )
    row = connection(p.pcap(talk.packets[3:]))
    assert (row.role, row.local_port) == (None, 50_000)


def test_secrets_of_the_file_reach_the_sinks(ear):
    data = p.section() + p.interface() + p.block(10, bytes.fromhex("4b534c54") + b"\x03\0\0\0abc\0")
    read(data + p.enhanced(p.START_S * 10**6, b"x" * 60))
    assert ear.secret == [(0x544C534B, b"abc")]


def test_real_handshakes_are_told_without_a_word_that_must_not_be_kept():
    recording = read("tests/captures/own_tls12_full_then_ticket_resume.pcap")
    facts = recording.facts_of("hello")
    assert len(facts) == 4
    assert all(fact["whole"] for fact in facts)


@pytest.mark.usefixtures("ear")
def test_what_a_sink_found_is_in_the_recording():
    assert read(spoken(p.REQUEST)).facts_of("heard") == [{"kind": "heard", "streams": 1}]
