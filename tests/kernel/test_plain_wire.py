# SPDX-License-Identifier: Apache-2.0
"""HTTP without TLS, taken from packets, compared with what the server at the other end read and wrote."""

from __future__ import annotations

import itertools
import sys
import threading

import pytest

from tests.kernel.harness import Namespace, serve
from tests.kernel.library_ends import Program
from tests.kernel.plaintext import END, RECEIVE, SEND, PlainTrace, joined
from tests.kernel.test_plain import Truth, assert_same, ports

pytestmark = pytest.mark.kernel

WHOLE, PACKET = 1, 5
CLIENT = """
import socket, sys
for round in range(2):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
        for size in (1, 200, 3000, 9000, 400000):
            s.sendall(b"GET /%d HTTP/1.1\\r\\nHost: localhost\\r\\nX-Round: %d\\r\\n\\r\\n" % (size, round))
            answer = b""
            while not answer.endswith(b"END"):
                answer += s.recv(65536)
"""
SAYS = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
    s.sendall(bytes.fromhex(sys.argv[2]))
    s.recv(100)
    s.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
    s.recv(100)
"""
FAST = """
import socket, sys
with socket.socket() as s:
    s.sendto(b"GET /1 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n", socket.MSG_FASTOPEN, ("127.0.0.1", int(sys.argv[1])))
    s.recv(100)
    s.sendall(b"GET /2 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    s.recv(100)
    print([s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 6)[5] & 32])  # TCPI_OPT_SYN_DATA
"""
FRAMES = """
import socket, sys
frames = b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes(range(256)) * 60
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
    s.sendall(frames)
    s.shutdown(socket.SHUT_WR)
    while s.recv(100):
        pass
"""
TRANSFER = """
import random, socket, ssl, sys
chance = random.Random(7)
frames = [b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"]
for number in range(600):
    size = 16384 if number % 3 else chance.randrange(200)
    frames.append(size.to_bytes(3, "big") + bytes([0, number % 2]) + (number + 1).to_bytes(4, "big") + bytes(size))
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
if sys.argv[2:]:
    sock = ssl.create_default_context(cafile=sys.argv[2]).wrap_socket(sock, server_hostname="localhost")
data = b"".join(frames)
for at in range(0, len(data), 16000):
    sock.sendall(data[at : at + 16000])
sock.shutdown(socket.SHUT_WR)
while sock.recv(100):  # until the server has read all
    pass
"""


@pytest.fixture
def truth(keep, tmp_path):
    return keep(Truth(tmp_path, tls=False))


@pytest.fixture
def traced(cleanup, keep, tmp_path):
    numbers = itertools.count()

    def run(*argv, **settings):
        made = keep(Program(*argv))
        tracing = cleanup.enter_context(PlainTrace(tmp_path / f"{next(numbers)}.ndrec", pids=[made.pid], **settings))
        made.end()
        tracing.stop()
        return tracing, made.pid

    return run


def test_bytes_of_both_directions(traced, truth):
    tracing, pid = traced(sys.executable, "-I", "-c", CLIENT, truth.port)
    port_of, conversations = ports(tracing), tracing.conversations(pid)
    assert len(conversations) == len(truth.read) == 2
    for (handle, _, cookie), directions in conversations.items():
        port = int(port_of[cookie])
        for direction, real in ((SEND, truth.read[port]), (RECEIVE, truth.wrote[port])):
            assert_same(joined(directions[direction]), real, directions[direction])
            assert {(each.binding, each.library, each.entered) for each in directions[direction]} == {(PACKET, 0, 0)}
            assert all(piece.flags & WHOLE for piece in directions[direction])
        assert handle == 0
        ends = [p for p in tracing.of(pid) if p.flags & END and p.cookie == cookie]
        assert sorted(p.direction for p in ends) == [SEND, RECEIVE]


@pytest.mark.parametrize(
    "first",
    [b"\x16\x03\x01\x00\x10" + bytes(16), b"CONNECT example.invalid:443 HTTP/1.1\r\n\r\n", b"EHLO there, you\r\n"],
)
def test_what_does_not_begin_with_a_request_is_left_alone(traced, keep, first):
    listener = keep(serve())

    def answer():
        sock, _ = listener.accept()
        with sock:
            while sock.recv(1000):
                sock.sendall(b"ok")

    threading.Thread(target=answer, daemon=True).start()
    tracing, pid = traced(sys.executable, "-I", "-c", SAYS, listener.getsockname()[1], first.hex())
    assert tracing.of(pid) == []


def test_all_frames_of_http2_can_be_followed(traced, truth):
    tracing, pid = traced(sys.executable, "-I", "-c", FRAMES, truth.port)
    (directions,) = tracing.conversations(pid).values()
    sent = joined(directions[SEND])
    assert sent == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(range(256)) * 60
    assert sum(len(piece.data) for piece in directions[SEND]) == len(sent)


def test_lost_and_repeated_packets_are_told_once(cleanup, keep, tmp_path):
    """One packet in seven is dropped on arrival: what is sent again is not told again."""
    source = CLIENT.replace("400000", "60000")
    network = cleanup.enter_context(Namespace())
    with network.inside():
        server = keep(Truth(tmp_path, tls=False, pause=0.005))
    network.rules(f"tcp dport {server.port} numgen inc mod 7 == 3 drop")
    made = keep(Program(*network.command(sys.executable, "-I", "-c", source), server.port))
    tracing = cleanup.enter_context(PlainTrace(tmp_path / "t.ndrec", pids=[made.pid]))
    made.end()
    tables = tracing.stop()
    assert tables.connections["retransmits"].sum() > 0
    port_of = ports(tracing)
    for (_, _, cookie), directions in tracing.conversations(made.pid).items():
        real = server.read[int(port_of[cookie])]
        assert_same(joined(directions[SEND]), real, directions[SEND])


def test_data_in_the_packet_that_opens_the_connection_comes_first(cleanup, keep, tmp_path):
    network = cleanup.enter_context(Namespace())
    network.run("sysctl", "-qw", f"net.ipv4.tcp_fastopen={0x1 | 0x2 | 0x4 | 0x200 | 0x400}")  # without a cookie
    with network.inside():
        server = keep(Truth(tmp_path, tls=False))
    made = keep(Program(*network.command(sys.executable, "-I", "-c", FAST), server.port))
    tracing = cleanup.enter_context(PlainTrace(tmp_path / "t.ndrec", pids=[made.pid]))
    assert made.end() == [[32]]
    tracing.stop()
    (directions,) = tracing.conversations(made.pid).values()
    (real,) = server.read.values()
    assert_same(joined(directions[SEND]), real, directions[SEND])


@pytest.mark.parametrize("tls", [False, True])
def test_the_head_of_each_frame_is_told_even_of_a_transfer(traced, keep, tmp_path, tls):
    server = keep(Truth(tmp_path, tls=tls))
    cert = (server.cert,) if tls else ()
    tracing, pid = traced(sys.executable, "-I", "-c", TRANSFER, server.port, *cert)
    (directions,) = tracing.conversations(pid).values()
    (real,) = server.read.values()
    sent = directions[SEND]
    told = joined(sent)
    assert len(told) == len(real)
    known = bytearray(len(told))
    for piece in sent:
        known[piece.offset : piece.offset + len(piece.data)] = b"\1" * len(piece.data)
        end = piece.offset + piece.length
        known[end - len(piece.tail) : end] = b"\1" * len(piece.tail)
    at, frames = 24, 0
    while at < len(real):
        assert known[at : at + 9] == b"\1" * 9, f"the head of frame {frames} at {at} is missing"
        assert told[at : at + 9] == real[at : at + 9]
        at += 9 + int.from_bytes(real[at : at + 3], "big")
        frames += 1
    assert frames == 600
    assert sum(known) < len(real) / 4
