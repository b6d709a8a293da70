# SPDX-License-Identifier: Apache-2.0
"""Servers of the test on loopback answer, lie, cut and stay silent."""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from subprocess import run

import dns.exception
import dns.message
import dns.rrset
import pytest

from netdiag.route.resolvers import exchange, system_resolvers

SERVER = "127.0.0.1"
QUERY = dns.message.make_query("api.example.com", "A", use_edns=0)


def right(wire, *, cut=False, text="203.0.113.10"):
    query = dns.message.from_wire(wire)
    reply = dns.message.make_response(query)
    reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", text))
    if cut:
        reply.flags |= 0x0200
    return reply.to_wire()


@pytest.fixture
def serve():
    """Return a function that starts a server of given answers (wire → list of datagrams) and gives its port."""
    socks = []

    def start(answer, over_tcp=None):
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((SERVER, 0))
        port = udp.getsockname()[1]
        socks.append(udp)

        def datagrams():
            wire, client = udp.recvfrom(4096)
            for one in answer(wire):
                udp.sendto(one, client)

        threading.Thread(target=datagrams, daemon=True).start()
        if over_tcp is not None:
            listener = socket.create_server((SERVER, port))
            socks.append(listener)

            def stream():
                sock, _ = listener.accept()
                with sock:
                    wire = sock.recv(4096)[2:]
                    for part in over_tcp(wire):
                        sock.sendall(part)
                        time.sleep(0.01)

            threading.Thread(target=stream, daemon=True).start()
        return port

    yield start
    for sock in socks:
        sock.close()


def answers(reply):
    return [row.to_text() for block in reply.answer for row in block]


def test_an_answer(serve):
    port = serve(lambda wire: [right(wire)])
    assert answers(exchange(QUERY, SERVER, timeout_s=2, port=port)) == ["203.0.113.10"]


def test_what_answers_another_question_is_passed_over(serve):
    def lies(wire):
        other = dns.message.make_query("evil.example.com", "A").to_wire()
        strange = bytes([wire[0] ^ 1]) + right(wire, text="198.51.100.6")[1:]
        return [b"", b"x", wire[:12], strange, right(other, text="198.51.100.6"), wire, right(wire)]

    port = serve(lies)
    assert answers(exchange(QUERY, SERVER, timeout_s=2, port=port)) == ["203.0.113.10"]


def test_an_answer_that_was_cut_is_fetched_whole(serve):
    def parts(wire):
        whole = right(wire)
        yield struct.pack("!H", len(whole)) + whole[:5]
        yield whole[5:]

    port = serve(lambda wire: [right(wire, cut=True)], parts)
    reply = exchange(QUERY, SERVER, timeout_s=2, port=port)
    assert answers(reply) == ["203.0.113.10"]
    assert not reply.flags & 0x0200


@pytest.mark.parametrize(
    "parts", [lambda _wire: [b"\0"], lambda _wire: [b"\0\x05hello"]], ids=["ends early", "garbage"]
)
def test_a_stream_that_is_no_answer_is_an_error(serve, parts):
    port = serve(lambda wire: [right(wire, cut=True)], parts)
    with pytest.raises((EOFError, ValueError, dns.exception.DNSException)):
        exchange(QUERY, SERVER, timeout_s=2, port=port)


def test_silence_ends_in_time(serve):
    port = serve(lambda _wire: [])
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        exchange(QUERY, SERVER, timeout_s=0.1, port=port)
    assert time.monotonic() - began < 2


def test_nobody_there_is_told_at_once():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((SERVER, 0))
        port = sock.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        exchange(QUERY, SERVER, timeout_s=2, port=port)


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("nameserver 127.0.0.53\n", ("127.0.0.53",)),
        ("# nameserver 1.2.3.4\nsearch lan\n nameserver\t::1 \noptions edns0\n", ("::1",)),
        ("nameserver fe80::1%eth0\nnameserver nonsense\nnameserver\n", ("fe80::1%eth0",)),
        ("".join(f"nameserver 127.0.0.{at}\n" for at in range(1, 9)), ("127.0.0.1", "127.0.0.2", "127.0.0.3")),
        ("\xff\x00", ()),
    ],
)
def test_servers_of_the_system(tmp_path, text, servers):
    path = tmp_path / "resolv.conf"
    path.write_text(text)
    assert system_resolvers(path) == servers
    assert system_resolvers(tmp_path / "none") == ()


def test_names_load_no_transport_that_they_do_not_use():
    code = "import sys, netdiag.route.names; print(*[m for m in sys.modules if 'quic' in m or m == 'dns.query'])"
    assert run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
