# SPDX-License-Identifier: Apache-2.0
"""How connections end and what goes wrong on the way: closes, resets, timeouts, losses, windows, full queues."""

from __future__ import annotations

import math
import os
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.kernel.harness import abort, cookie, drain, half, serve, until

pytestmark = pytest.mark.kernel

TCP_USER_TIMEOUT = 18
TCP_INFO_RETRANSMITS = 100  # offset of tcpi_total_retrans in struct tcp_info (include/uapi/linux/tcp.h)
TCP_INFO_RWND_LIMITED = 176  # of tcpi_rwnd_limited, microseconds


def info(sock, offset, form="=I"):
    whole = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from(form, whole, offset)[0]


def at_end(sock):
    return sock.recv(1) == b""


def close_client(client, server):
    client.close()
    until(lambda: at_end(server))
    server.close()


def close_server(client, server):
    server.close()
    until(lambda: at_end(client))
    client.close()


def shut_client_down(client, server):
    """A request that ends by a FIN is still answered."""
    client.shutdown(socket.SHUT_WR)
    until(lambda: at_end(server))
    server.sendall(b"late answer")
    server.close()
    while client.recv(100):
        pass
    client.close()


def abort_client(client, server):
    abort(client)
    with pytest.raises(ConnectionResetError):
        server.recv(1)
    server.close()


def abort_server(client, server):
    abort(server)
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    client.close()


def leave_data_unread(client, server):
    """A close with data in the queue is a reset: RFC 2525, 2.17."""
    server.sendall(b"nobody reads this")
    until(lambda: client.recv(100, socket.MSG_PEEK))
    client.close()
    with pytest.raises(ConnectionResetError):
        server.recv(1)
    server.close()


@pytest.mark.parametrize("mode", ["127.0.0.1", "::1"])
@pytest.mark.parametrize(
    ("ending", "mine", "theirs"),
    [
        (close_client, ("local", "fin"), ("remote", "fin")),
        (close_server, ("remote", "fin"), ("local", "fin")),
        (shut_client_down, ("local", "fin"), ("remote", "fin")),
        (abort_client, ("local", "rst"), ("remote", "rst")),
        (abort_server, ("remote", "rst"), ("local", "rst")),
        (leave_data_unread, ("local", "rst"), ("remote", "rst")),
    ],
)
def test_who_closed_first_and_how(ending, mine, theirs, mode, trace, keep):
    tracing = trace()
    client, server = keep(*half(keep(serve(mode))))
    numbers = cookie(client), cookie(server)
    time.sleep(0.05)
    began = time.monotonic_ns()
    ending(client, server)
    ended = time.monotonic_ns()
    tracing.stop()
    rows = [tracing.row(number) for number in numbers]
    assert [(row["closed_by"], row["close"]) for row in rows] == [mine, theirs]
    assert [row["outcome"] for row in rows] == ["established"] * 2
    for row in rows:
        assert tracing.since_start(began) <= row["closing_ns"] <= tracing.since_start(ended)
        if ending in (close_client, close_server, abort_client, abort_server):
            assert math.isnan(row["idle_before_close_ms"]) or row["idle_before_close_ms"] == pytest.approx(50, abs=40)
    assert [row["unread_close"] for row in rows] == [ending is leave_data_unread, False]


def test_an_idle_peer_that_vanished_is_found_by_keepalive(trace, network, keep):
    tracing = trace()
    with network.inside():
        client, server = keep(*half(keep(serve())))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT):
        client.setsockopt(socket.IPPROTO_TCP, option, 1)
    network.rules(f"tcp dport {client.getpeername()[1]} drop")
    with pytest.raises(TimeoutError):
        client.recv(1)
    number = cookie(client)
    server.close()
    client.close()
    tracing.stop()
    row = tracing.row(number)
    assert (row["closed_by"], row["close"], row["error"]) == (None, "timeout", "ETIMEDOUT")
    assert (row["outcome"], row["keepalive_probes"]) == ("established", True)
    assert row["idle_before_close_ms"] == pytest.approx(2000, abs=300) or math.isnan(row["idle_before_close_ms"])


def test_data_that_nobody_acknowledges_ends_by_timeout(trace, network, keep):
    tracing = trace()
    with network.inside():
        client, _server = keep(*half(keep(serve())))
    client.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, 700)
    network.rules(f"tcp dport {client.getpeername()[1]} drop")
    client.sendall(b"into the void")
    with pytest.raises(TimeoutError):
        client.recv(1)
    number = cookie(client)
    client.close()
    tracing.stop()
    row = tracing.row(number)
    assert (row["closed_by"], row["close"], row["error"]) == (None, "timeout", "ETIMEDOUT")
    assert row["retransmits"] >= 1


def test_lost_segments_are_counted_as_the_kernel_counts_them(trace, network, keep):
    tracing = trace()
    with network.inside():
        client, server = keep(*half(keep(serve())))
    port = server.getsockname()[1]
    network.rules(f"tcp dport {port} ip length > 100 numgen random mod 100 < 10 drop")
    sender = threading.Thread(target=client.sendall, args=(bytes(8_000_000),))
    sender.start()
    drain(server, 8_000_000)
    sender.join()
    until(lambda: info(client, 24) == 0)  # tcpi_unacked: every acknowledgement came
    told, numbers = info(client, TCP_INFO_RETRANSMITS), (cookie(client), cookie(server))
    client.close()
    server.close()
    tables = tracing.stop()
    row, theirs = map(tracing.row, numbers)
    assert told > 0
    assert (row["retransmits"], row["bytes_sent"], row["syn_retransmits"]) == (told, 8_000_000, 0)
    mine = tables.retransmits[tables.retransmits["connection"] == row.name]
    assert 0 < len(mine) <= told
    assert theirs["bytes_received"] == 8_000_000


def test_a_lost_syn_is_sent_again_and_shows_in_the_connect_time(trace, network, keep):
    tracing = trace()
    with network.inside():
        listener, client = keep(serve(), socket.socket())
    port = listener.getsockname()[1]
    network.rules(f"tcp dport {port} tcp flags syn drop")
    healer = threading.Timer(0.5, network.heal)
    healer.start()
    began = time.monotonic()
    client.connect(listener.getsockname())
    took_ms = (time.monotonic() - began) * 1e3
    healer.join()
    number = cookie(client)
    tracing.stop()
    row = tracing.row(number)
    assert (row["syn_retransmits"], row["outcome"]) == (1, "established")
    assert 900 < row["connect_ms"] <= took_ms + 1


def test_a_reader_that_shuts_its_window(trace, network, keep):
    """One side stops reading for 600 ms; the other one can only wait."""
    tracing = trace()
    with network.inside():
        listener = keep(serve())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        client, server = keep(*half(listener))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    sender = threading.Thread(target=client.sendall, args=(bytes(400_000),))
    sender.start()
    began = time.monotonic()
    time.sleep(0.6)
    drain(server, 400_000)
    took_ms = (time.monotonic() - began) * 1e3
    sender.join()
    limited_ms = info(client, TCP_INFO_RWND_LIMITED, "=Q") / 1e3
    numbers = cookie(client), cookie(server)
    client.close()
    server.close()
    tracing.stop()
    mine, theirs = map(tracing.row, numbers)
    assert 500 < theirs["zero_window_ms"] <= took_ms + 5
    assert mine["zero_window_ms"] == 0
    assert mine["peer_window_ms"] == pytest.approx(limited_ms, abs=20)
    assert mine["peer_window_ms"] > 500


def test_a_listener_whose_queue_is_full(trace, network, keep, cleanup):
    """A listener is looked at where its process lives; `cat` makes the namespace one that somebody lives in."""
    resident = cleanup.enter_context(subprocess.Popen(network.command("cat"), stdin=subprocess.PIPE))
    with network.inside():
        listener = keep(serve(backlog=1))
        clients = keep(*(socket.socket() for _ in range(6)))
    until(lambda: Path(f"/proc/{resident.pid}/ns/net").samefile(network.path))
    tracing = trace(pids=[os.getpid(), resident.pid])
    for client in clients:
        client.setblocking(False)
        client.connect_ex(listener.getsockname())
    time.sleep(1.2)  # a SYN is sent again after a second, and dropped again
    numbers = [cookie(client) for client in clients]
    tables = tracing.stop()
    rows = [tracing.row(number) for number in numbers]
    assert [row["outcome"] for row in rows].count("established") == 2  # the kernel lets one in more than was asked for
    assert [row["outcome"] for row in rows].count("pending") == 4
    mine = tables.listeners[tables.listeners["local_port"] == listener.getsockname()[1]]
    first, last = mine.iloc[0], mine.iloc[-1]
    assert (first["accept_queue"], first["drops"], first["pid"]) == (0, 0, os.getpid())
    assert (last["accept_queue"], last["accept_queue_max"]) == (2, 1)
    assert last["drops"] >= 4
