# SPDX-License-Identifier: Apache-2.0
"""Every TLS record header on the wire, compared with the exact bytes that were handed to the sockets."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import threading
import time

import pytest

from netdiag.lab import certificate
from netdiag.tables.codes import Direction, RecordType, WireClass
from tests.kernel.harness import cookie, drain, half, serve

pytestmark = pytest.mark.kernel

CLASS, GAP, ALERT, HANDSHAKE, DATA = 0, 1, 21, 22, 23
RESYNCED = 1
SEND, RECEIVE = Direction.SEND, Direction.RECEIVE


def record(kind, length, fill=b"\x5a"):
    return struct.pack("!BHH", kind, 0x0303, length) + (fill * length)[:length]


def headers(stream):
    """Return (type, length) of every record in a byte stream."""
    found, at = [], 0
    while at < len(stream):
        kind, _, length = struct.unpack_from("!BHH", stream, at)
        found.append((kind, length))
        at += 5 + length
    assert at == len(stream)
    return found


class Pair:
    """A connection on loopback that remembers every byte that each side sent."""

    def __init__(self, keep, listener):
        self.client, self.server = keep(*half(listener))
        self.bytes = {self.client: b"", self.server: b""}
        self.peer = {self.client: self.server, self.server: self.client}
        for sock in self.bytes:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, sock, data, size=None):
        """Send in pieces of `size` bytes, each of which is read before the next is written."""
        self.bytes[sock] += data
        step = size or len(data) or 1
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            sender = threading.Thread(target=sock.sendall, args=(piece,))
            sender.start()
            drain(self.peer[sock], len(piece))
            sender.join()


def seen(tracing, number, direction):
    events = tracing.recording.records("tls_record")
    return events[(events["cookie"] == number) & (events["direction"] == direction)]


def pairs(events):
    return [(int(kind), int(length)) for kind, length in zip(events["type"], events["length"], strict=True)]


def followed(tracing, number, direction):
    events = seen(tracing, number, direction)
    return pairs(events[events["type"] >= RecordType.CHANGE_CIPHER_SPEC])


def kinds(tracing, number, what):
    events = tracing.recording.records("tls_record")
    return events[(events["cookie"] == number) & (events["type"] == what)]


def classes(tracing, number):
    return [WireClass(int(value)) for value in kinds(tracing, number, CLASS)["first"]]


def gaps(tracing, number):
    return len(kinds(tracing, number, GAP))


def assert_all_followed(tracing, pair, numbers):
    """Both ends saw each header of both directions, and nothing else."""
    (mine, theirs), sent = numbers, pair.bytes
    for number, out, into in ((mine, pair.client, pair.server), (theirs, pair.server, pair.client)):
        assert followed(tracing, number, SEND) == headers(sent[out])
        assert followed(tracing, number, RECEIVE) == headers(sent[into])
        assert gaps(tracing, number) == 0


@pytest.fixture
def pair(keep):
    return Pair(keep, keep(serve()))


@pytest.fixture
def contexts(tmp_path):
    key, cert = certificate.make(tmp_path)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(cert, key)
    client.load_verify_locations(cert)
    return client, server


class Tls:
    """A TLS library on each end that writes into memory; what it wrote goes through the pair."""

    def __init__(self, pair, contexts, piece=None):
        self.pair, self.piece = pair, piece
        self.boxes = {sock: (ssl.MemoryBIO(), ssl.MemoryBIO()) for sock in (pair.client, pair.server)}
        client, server = contexts
        self.ends = {
            pair.client: client.wrap_bio(*self.boxes[pair.client], server_hostname="localhost"),
            pair.server: server.wrap_bio(*self.boxes[pair.server], server_side=True),
        }

    def flush(self, sock):
        data = self.boxes[sock][1].read()
        if data:
            self.pair.send(sock, data, self.piece)
            self.boxes[self.pair.peer[sock]][0].write(data)

    def handshake(self):
        waiting = list(self.ends)
        while waiting:
            for sock in list(waiting):
                try:
                    self.ends[sock].do_handshake()
                    waiting.remove(sock)
                except ssl.SSLWantReadError:
                    pass
                self.flush(sock)

    def write(self, sock, count):
        self.ends[sock].write(bytes(count))
        self.flush(sock)
        other = self.ends[self.pair.peer[sock]]
        while count:
            count -= len(other.read(count))


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("piece", [None, 1000, 37])
def test_a_real_conversation(piece, version, trace, pair, contexts):
    for context in contexts:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    tracing = trace()
    tls = Tls(pair, contexts, piece)
    tls.handshake()
    for size in (1, 100, 16_384, 16_385, 50_000) if piece is None else (1, 500, 3000):
        tls.write(pair.client, size)
        tls.write(pair.server, size * 2)
    numbers = cookie(pair.client), cookie(pair.server)
    tables = tracing.stop()
    assert_all_followed(tracing, pair, numbers)
    rows = [tracing.row(number) for number in numbers]
    assert [row["encrypted"] for row in rows] == [True, True]
    assert [classes(tracing, number) for number in numbers] == [[WireClass.TLS]] * 2
    mine = tables.records[tables.records["connection"] == rows[0].name]
    assert len(mine) == sum(len(headers(stream)) for stream in pair.bytes.values())


def test_headers_that_are_split_anywhere(trace, pair):
    """Byte by byte, so that every header comes in five pieces."""
    tracing = trace()
    pair.send(pair.client, record(HANDSHAKE, 40, b"\1\0\0\x24"))
    pair.send(pair.server, record(HANDSHAKE, 20, b"\2\0\0\x10"))
    for kind, length in ((DATA, 3), (DATA, 1), (ALERT, 2), (HANDSHAKE, 17), (DATA, 25)):
        pair.send(pair.client, record(kind, length), 1)
        pair.send(pair.server, record(kind, length), 2)
    numbers = cookie(pair.client), cookie(pair.server)
    tracing.stop()
    assert_all_followed(tracing, pair, numbers)


@pytest.mark.parametrize("seed", range(5))
def test_records_and_segments_of_any_size(seed, trace, pair):
    draw = random.Random(seed)
    tracing = trace()
    for sock in (pair.client, pair.server):
        pair.send(sock, record(HANDSHAKE, 200, b"\1\0\0\xc4"))
        stream = b"".join(record(DATA, draw.choice([1, 2, 30, 1448, 5000, 16_408])) for _ in range(30))
        pair.bytes[sock] += stream
        while stream:
            cut = draw.choice([1, 3, 5, 7, 100, 1460, 16_384, 65_536])
            sock.sendall(stream[:cut])
            drain(pair.peer[sock], len(stream[:cut]))
            stream = stream[cut:]
    numbers = cookie(pair.client), cookie(pair.server)
    tracing.stop()
    assert_all_followed(tracing, pair, numbers)


def test_records_of_the_largest_size(trace, pair):
    tracing = trace()
    pair.send(pair.client, record(HANDSHAKE, 300, b"\1\0\1\x28"))
    pair.send(pair.client, b"".join(record(DATA, 16_384 + 256) for _ in range(20)))
    pair.send(pair.server, record(HANDSHAKE, 100, b"\2\0\0\x60") + b"".join(record(DATA, 16_384) for _ in range(20)))
    numbers = cookie(pair.client), cookie(pair.server)
    tracing.stop()
    assert_all_followed(tracing, pair, numbers)


def test_many_records_in_one_segment(trace, pair):
    """As many as are looked at in one packet are told; where there are more, it is said that some are missing."""
    tracing = trace()
    pair.send(pair.client, record(HANDSHAKE, 50, b"\1\0\0\x2e"))
    pair.send(pair.client, record(DATA, 20) * 30)
    number = cookie(pair.client)
    pair.send(pair.client, record(DATA, 10) * 400)
    pair.send(pair.client, record(DATA, 77))
    tracing.stop()
    told, truth = followed(tracing, number, SEND), headers(pair.bytes[pair.client])
    assert told[:31] == truth[:31]
    assert told == truth or (gaps(tracing, number) and is_part(told, truth))
    assert told[-1] == (DATA, 77), "found again at the next packet"


def is_part(told, truth):
    """Return whether `told` is `truth` with some left out: nothing invented, nothing out of order."""
    rest = iter(truth)
    return all(entry in rest for entry in told)


def test_a_client_hello_in_two_segments(trace, pair):
    tracing = trace()
    pair.send(pair.client, record(HANDSHAKE, 1700, b"\1\0\6\xa0"), 1000)
    pair.send(pair.server, record(HANDSHAKE, 100, b"\2\0\0\x60"))
    pair.send(pair.client, record(DATA, 300))
    numbers = cookie(pair.client), cookie(pair.server)
    tracing.stop()
    assert_all_followed(tracing, pair, numbers)


def test_a_tunnel_through_a_proxy_then_tls(trace, pair, contexts):
    tracing = trace()
    pair.send(pair.client, b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n")
    pair.send(pair.server, b"HTTP/1.1 200 Connection established\r\n\r\n")
    pair.bytes = dict.fromkeys(pair.bytes, b"")
    tls = Tls(pair, contexts)
    tls.handshake()
    tls.write(pair.client, 500)
    tls.write(pair.server, 5000)
    numbers = cookie(pair.client), cookie(pair.server)
    tracing.stop()
    assert_all_followed(tracing, pair, numbers)
    assert classes(tracing, numbers[0]) == [WireClass.CONNECT, WireClass.TLS]
    assert tracing.row(numbers[0])["encrypted"] is True


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", WireClass.HTTP1),
        (b"POST /v1/chat HTTP/1.1\r\nHost: a\r\n\r\n", WireClass.HTTP1),
        (b"OPTIONS * HTTP/1.1\r\n\r\n", WireClass.HTTP1),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", WireClass.HTTP2),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", WireClass.OTHER),
        (b"EHLO mail\r\n", WireClass.OTHER),
    ],
)
def test_what_is_not_tls(first, expected, trace, pair):
    tracing = trace()
    pair.send(pair.client, first)
    pair.send(pair.server, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    number = cookie(pair.client)
    tracing.stop()
    assert classes(tracing, number)[:1] == [expected]
    assert followed(tracing, number, SEND) == []
    assert tracing.row(number)["encrypted"] is not True


def test_bytes_that_only_look_like_a_record_later(trace, pair):
    """A plain connection whose later data begins like TLS stays plain."""
    tracing = trace()
    pair.send(pair.client, b"POST /upload HTTP/1.1\r\nContent-Length: 305\r\n\r\n")
    pair.send(pair.client, record(HANDSHAKE, 300, b"\1\0\1\x28"))
    number = cookie(pair.client)
    tracing.stop()
    assert followed(tracing, number, SEND) == []
    assert tracing.row(number)["encrypted"] is False


def test_a_connection_older_than_the_trace_is_met_in_the_middle(trace, pair):
    pair.send(pair.client, record(HANDSHAKE, 300, b"\1\0\1\x28"))
    pair.send(pair.server, record(HANDSHAKE, 100, b"\2\0\0\x60"))
    pair.bytes = dict.fromkeys(pair.bytes, b"")
    tracing = trace()
    for _ in range(3):
        pair.send(pair.client, record(DATA, 300))
        pair.send(pair.server, record(DATA, 4000))
    numbers = cookie(pair.client), cookie(pair.server)
    tracing.stop()
    assert_all_followed(tracing, pair, numbers)
    first = seen(tracing, numbers[0], SEND)
    assert first[first["type"] == DATA]["flags"][0] & RESYNCED


def test_lost_and_reordered_packets_leave_gaps_and_invent_nothing(trace, network, keep):
    draw = random.Random(7)
    tracing = trace()
    with network.inside():
        listener = keep(serve())
        pair = Pair(keep, listener)
    pair.send(pair.client, record(HANDSHAKE, 300, b"\1\0\1\x28"))
    pair.send(pair.server, record(HANDSHAKE, 100, b"\2\0\0\x60"))
    network.rules(f"tcp dport {listener.getsockname()[1]} ip length > 100 numgen random mod 100 < 10 drop")
    stream = b"".join(record(DATA, draw.randrange(1, 9000), draw.randbytes(16)) for _ in range(600))
    pair.bytes[pair.client] += stream
    sender = threading.Thread(target=pair.client.sendall, args=(stream,))
    sender.start()
    drain(pair.server, len(stream))
    sender.join()
    numbers = cookie(pair.client), cookie(pair.server)
    pair.client.close()
    pair.server.close()
    tracing.stop()
    truth = headers(pair.bytes[pair.client])
    assert tracing.row(numbers[0])["retransmits"] > 0
    assert tracing.loss("tls_record")[1] == 0
    for number, direction in ((numbers[0], SEND), (numbers[1], RECEIVE)):
        told = followed(tracing, number, direction)
        assert is_part(told, truth)
        assert told == truth or gaps(tracing, number) > 0
        assert told[0] == truth[0]
    assert gaps(tracing, numbers[1]) > 0, "no packet came out of order: the test shows nothing"


def test_when_each_header_passed(trace, pair):
    tracing = trace()
    instants = []
    pair.send(pair.client, record(HANDSHAKE, 300, b"\1\0\1\x28"))
    for _ in range(3):
        time.sleep(0.02)
        instants.append(time.monotonic_ns())
        pair.send(pair.client, record(DATA, 100))
    number = cookie(pair.client)
    tables = tracing.stop()
    mine = tables.records[(tables.records["connection"] == tracing.row(number).name)]
    sent = mine[mine["direction"] == "send"]["at_ns"].tolist()[1:]
    assert sent == pytest.approx([tracing.since_start(instant) for instant in instants], abs=5e6)


def test_a_bystander_is_not_looked_at(trace, pair):
    tracing = trace(port=1)
    pair.send(pair.client, record(HANDSHAKE, 300, b"\1\0\1\x28"))
    tracing.stop()
    assert len(tracing.recording.records("tls_record")) == 0
    assert len(tracing.tables.connections) == 0
