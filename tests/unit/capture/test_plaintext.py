# SPDX-License-Identifier: Apache-2.0
"""Requests of a capture: in the clear, behind keys, after missing bytes; never a word that is not kept."""

from __future__ import annotations

import json
import ssl
from typing import Any

import pytest

from netdiag.addresses import from_text
from netdiag.capture.keylog import KeyLog
from netdiag.capture.plaintext import PlaintextSink
from netdiag.capture.sink import TLS_KEY_LOG, Chunk, Harvest, Stream
from netdiag.decode.http.exchange import Ended
from tests.fakes import packets
from tests.fakes.tls_session import talk
from tests.unit.capture.capturing import table

CLIENT, SERVER = (from_text("192.0.2.1"), 40000), (from_text("192.0.2.2"), 443)
MS = 1_000_000
SECRET = "s3cr3t"
BODY = f'{{"model":"m-1","stream":true,"prompt":"{SECRET}"}}'
ASKED = (
    f"POST /v1/chat/completions?key={SECRET} HTTP/1.1\r\nHost: api.example.test\r\nAuthorization: Bearer {SECRET}\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n{BODY}"
).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Request-Id: r1\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices":[{"delta":{"content":"s3cr3t"}}]}\n\n'
EVENTS = [HEAD, *[b"%x\r\n%s\r\n" % (len(EVENT), EVENT)] * 3, b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"]
CLEAR, TLS = 2, 1
Said = list[tuple[bool, bytes]]
SAID: Said = [(True, ASKED), *((False, event) for event in EVENTS)]


def read(
    said: Said, speaks: int, *, keys: bytes = b"", lost: frozenset[int] = frozenset(), cut: int | None = None
) -> Harvest:
    """Return what is found where packets pass each millisecond; `lost` are not in the file, of others `cut` bytes."""
    log = KeyLog()
    log.add(keys)
    sink = PlaintextSink(log)
    stream = Stream(cookie=5, speaks=speaks, client=CLIENT, server=SERVER, offsets=(0, 0), whole=True, began_ns=0)
    handler = sink.begin(stream)
    offsets = {True: 0, False: 0}
    for number, (client, data) in enumerate(said):
        if handler is not None and number not in lost:
            held = memoryview(data)[:cut]
            chunk = Chunk(at_ns=(number + 1) * MS, send=client, offset=offsets[client], length=len(data), data=held)
            handler.feed([chunk])
        offsets[client] += len(data)
    if handler is not None:
        handler.end(99 * MS, clean=True)
    return sink.finish()


def requests(harvest: Harvest) -> list[dict[str, Any]]:
    texts = {0: None}
    for fact in harvest.facts:
        if fact["kind"] == "strings":
            texts |= {fact["first"] + at: value for at, value in enumerate(fact["values"])}
    found = []
    for record in harvest.records.get("http_request", ()):
        one = {name: record[name].item() for name in record.dtype.names if name != "reserved"}
        found.append(one | {name: texts[one[name]] for name in ("method", "host", "path", "model", "headers")})
    return found


def facts(harvest: Harvest, kind: str) -> list[Any]:
    return [fact for fact in harvest.facts if fact["kind"] == kind]


def test_a_stream_in_the_clear_is_told():
    harvest = read(SAID, CLEAR)
    (one,) = requests(harvest)
    assert (one["method"], one["host"], one["path"]) == ("POST", "api.example.test", "/v1/chat/completions")
    assert (one["model"], one["status"], one["result"]) == ("m-1", 200, Ended.COMPLETE)
    assert (one["began"], one["sent"], one["first_byte"], one["ended"]) == (1 * MS, 1 * MS, 2 * MS, 6 * MS)
    assert json.loads(one["headers"])["x-request-id"] == "r1"
    assert (one["cookie"], one["request_end"], one["response_body"]) == (5, len(ASKED), len(HEAD))
    chunks = harvest.records["http_chunk"]
    assert chunks["time"].tolist() == [3 * MS, 4 * MS, 5 * MS, 6 * MS]
    assert chunks["tokens"].tolist() == [1, 1, 1, 0]
    (conversation,) = facts(harvest, "conversation")
    assert (conversation["cookie"], conversation["how"], conversation["protocol"]) == (5, "clear", "http/1")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_behind_keys_the_same_is_told(version):
    passed = talk(SAID, version=version)
    harvest = read(passed.flights, TLS, keys=passed.keys)
    (one,) = requests(harvest)
    (plain,) = requests(read(SAID, CLEAR))
    times = {"time", "began", "sent", "first_byte", "ended", "conversation"}
    assert {name: one[name] for name in one.keys() - times} == {name: plain[name] for name in plain.keys() - times}
    assert one["ended"] - one["first_byte"] == 4 * MS
    (inside,) = facts(harvest, "inside")
    assert (inside["cookie"], inside["closed"]) == (5, 0)
    assert facts(harvest, "conversation")[0]["how"] == "decrypted"


def test_secrets_of_the_file_itself_are_used():
    passed = talk(SAID)
    sink = PlaintextSink()
    stream = Stream(cookie=5, speaks=TLS, client=CLIENT, server=SERVER, offsets=(0, 0), whole=True, began_ns=0)
    assert sink.begin(stream) is None
    sink.secrets(0x57474B4C, passed.keys)  # of another kind
    assert sink.begin(stream) is None
    sink.secrets(TLS_KEY_LOG, passed.keys)
    assert sink.begin(stream) is not None


def test_without_the_right_keys_nothing_is_told():
    passed, other = talk(SAID), talk(SAID)
    nothing = read(passed.flights, TLS)
    assert (nothing.records, list(nothing.facts)) == ({}, [])
    harvest = read(passed.flights, TLS, keys=other.keys)
    assert harvest.records == {}
    assert facts(harvest, "inside") == []


def test_bytes_that_the_file_lacks_are_no_end():
    harvest = read([*SAID, *SAID], CLEAR, lost=frozenset({3}))
    first, second = requests(harvest)
    assert (first["status"], second["status"], second["result"]) == (200, 200, Ended.COMPLETE)
    assert first["flags"] & 32
    passed = talk([*SAID, *SAID])
    flights = [number for number, (client, data) in enumerate(passed.flights) if not client and len(data) < 200]
    harvest = read(passed.flights, TLS, keys=passed.keys, lost=frozenset(flights[2:3]))
    assert [one["status"] for one in requests(harvest)] == [200, 200]


@pytest.mark.parametrize(
    ("ends", "complete"),
    [
        ((), None),
        (((False, packets.FIN), (True, packets.FIN)), True),
        (((False, packets.FIN), (True, packets.RST)), True),
        (((True, packets.FIN), (False, packets.FIN)), True),
        (((False, packets.RST),), False),
        (((True, packets.RST),), False),
        (((True, packets.FIN), (False, packets.RST)), False),
        (((True, packets.FIN),), False),
    ],
)
def test_an_answer_until_the_end_of_the_connection_is_whole_where_the_server_ended_it(ends, complete):
    talk = packets.Talk(server=("10.0.0.2", 80)).open()
    talk.ask(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nsome of it")
    for ours, flag in ends:
        talk.say(ours, flags=flag | packets.ACK, after=0.1)
    (row,) = table(talk.file(), "requests").to_dict("records")
    assert (row["status"], row["complete"]) == (200, complete)


def test_packets_that_are_cut_off_tell_their_head():
    body = b"x" * 5000
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + body
    harvest = read([(True, b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n"), (False, answer)] * 2, CLEAR, cut=90)
    assert [(one["status"], one["result"], one["response_bytes"]) for one in requests(harvest)] == [
        (200, Ended.COMPLETE, len(answer))
    ] * 2


def test_a_protocol_inside_a_tunnel_begins_anew():
    sink = PlaintextSink()
    stream = Stream(cookie=5, speaks=CLEAR, client=CLIENT, server=SERVER, offsets=(70, 39), whole=True, began_ns=0)
    handler = sink.begin(stream)
    assert handler is not None
    request, answer = b"GET /in HTTP/1.1\r\nHost: b\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"
    for send, offset, data in ((True, 70, request), (False, 39, answer)):
        handler.feed([Chunk(at_ns=offset, send=send, offset=offset, length=len(data), data=memoryview(data))])
    handler.end(100)
    (one,) = requests(sink.finish())
    assert (one["path"], one["status"]) == ("/in", 204)


def test_nothing_secret_is_left_in_what_is_told():
    passed = talk(SAID)
    for harvest in (read(SAID, CLEAR), read(passed.flights, TLS, keys=passed.keys)):
        text = json.dumps([dict(fact) for fact in harvest.facts])
        text += "".join(records.tobytes().decode("latin-1") for records in harvest.records.values())
        assert SECRET not in text
        assert "Bearer" not in text


def test_floods_are_bounded_and_told(monkeypatch):
    monkeypatch.setattr("netdiag.capture.exchanges._MOST", {"http_request": 3, "http_chunk": 5})
    harvest = read(SAID * 5, CLEAR)
    assert len(harvest.records["http_request"]) == 3
    assert facts(harvest, "loss") == [
        {"kind": "loss", "probe": "http_request", "seen": 3, "lost": 2},
        {"kind": "loss", "probe": "http_chunk", "seen": 5, "lost": 15},
    ]
