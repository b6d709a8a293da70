# SPDX-License-Identifier: Apache-2.0
"""Owners, addresses, outcomes, bytes and times of real connections, compared with what the test itself did."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import select
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from tests.kernel.harness import cookie, drain, ended_well, half, in_child, serve, until

pytestmark = pytest.mark.kernel

IPPROTO_MPTCP = 262
PR_SET_NAME = 15
EINPROGRESS, EADDRNOTAVAIL = errno.EINPROGRESS, errno.EADDRNOTAVAIL


def in_thread(action):
    """Run `action` in a thread named `ndk-worker`; return its thread number and what it returned."""
    result = []

    def work():
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"ndk-worker", 0, 0, 0)
        result.append((threading.get_native_id(), action()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return result[0]


def test_the_owner_is_the_thread_that_connects_and_the_thread_that_serves(trace, keep):
    tracing = trace()
    listener = keep(serve())
    tid, client = in_thread(lambda: socket.create_connection(listener.getsockname()))
    server = keep(listener.accept()[0])
    keep(client).sendall(b"hello")
    server.recv(10)
    numbers = cookie(client), cookie(server)
    tracing.stop()
    mine, theirs = map(tracing.row, numbers)
    assert (mine["pid"], mine["tid"], mine["comm"], mine["role"]) == (os.getpid(), tid, "ndk-worker", "client")
    assert (theirs["pid"], theirs["tid"], theirs["role"]) == (os.getpid(), os.getpid(), "server")
    assert (mine["io_pid"], mine["io_tid"]) == (os.getpid(), os.getpid())
    assert (mine["close"], mine["outcome"]) == ("open", "established")


def test_a_connection_belongs_to_the_worker_that_served_it(trace, keep):
    """Three processes accept from one listener, which none of them made."""
    tracing = trace()
    listener = keep(serve())

    def work():
        for _ in range(20):
            sock, _ = listener.accept()
            with sock:
                sock.recv(100)
                sock.sendall(struct.pack("=I", os.getpid()))

    workers = [in_child(work) for _ in range(3)]
    told = {}
    for _ in range(60):
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(b"who?")
            told[client.getsockname()[1]] = struct.unpack("=I", client.recv(4))[0]
    ended_well(workers)
    ends = tracing.stop().connections
    servers = ends[ends["role"] == "server"]
    assert dict(zip(servers["remote_port"], servers["pid"], strict=True)) == told
    assert set(told.values()) == set(workers)
    clients = ends[ends["role"] == "client"]
    assert set(clients["pid"]) == {os.getpid()}
    assert set(zip(clients["bytes_sent"], clients["bytes_received"], strict=True)) == {(4, 4)}
    assert len(ends) == 120


@pytest.mark.parametrize(
    ("listens", "connects", "family", "ip"),
    [
        ("127.0.0.1", "127.0.0.1", "ipv4", "127.0.0.1"),
        ("::1", "::1", "ipv6", "::1"),
        ("127.0.0.1", "::ffff:127.0.0.1", "ipv4", "127.0.0.1"),
        ("::", "127.0.0.1", "ipv4", "127.0.0.1"),
        ("127.0.0.7", "127.0.0.7", "ipv4", "127.0.0.7"),
    ],
)
def test_addresses_of_both_ends(listens, connects, family, ip, trace, keep):
    tracing = trace()
    listener = keep(serve(listens))
    port = listener.getsockname()[1]
    client = keep(socket.socket(socket.AF_INET6 if ":" in connects else socket.AF_INET))
    client.connect((connects, port))
    server = keep(listener.accept()[0])
    local = client.getsockname()[1]
    numbers = cookie(client), cookie(server)
    tracing.stop()
    mine, theirs = map(tracing.row, numbers)
    columns = ["family", "local_port", "remote_ip", "remote_port", "protocol"]
    assert mine[columns].tolist() == [family, local, ip, port, "tcp"]
    assert theirs[["family", "local_ip", "local_port", "remote_port"]].tolist() == [family, ip, port, local]
    assert mine["local_ip"] == theirs["remote_ip"]


def test_subflows_of_mptcp_are_told_apart(trace, keep):
    try:
        listener = keep(socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP))
    except OSError as error:
        pytest.skip(f"needs MPTCP: {error}")
    tracing = trace()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    client = keep(socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP))
    client.connect(listener.getsockname())
    server = keep(listener.accept()[0])
    client.sendall(b"x" * 5000)
    until(lambda: len(server.recv(8000, socket.MSG_PEEK)) == 5000)
    local, remote = client.getsockname()[1], client.getpeername()[1]
    client.close()
    server.close()
    ends = tracing.stop().connections
    subflow = ends[(ends["local_port"] == local) & (ends["remote_port"] == remote)].iloc[0]
    assert set(ends["protocol"]) == {"mptcp"}
    assert (subflow["pid"], subflow["role"], subflow["bytes_sent"]) == (os.getpid(), "client", 5000)


def test_a_connect_that_does_not_wait(trace, keep):
    tracing = trace()
    listener = keep(serve())
    client = keep(socket.socket())
    client.setblocking(False)
    began = time.monotonic_ns()
    assert client.connect_ex(listener.getsockname()) in (0, EINPROGRESS)
    select.select([], [client], [], 5)
    ended = time.monotonic_ns()
    number = cookie(client)
    tracing.stop()
    row = tracing.row(number)
    assert (row["outcome"], row["error"], row["pid"]) == ("established", None, os.getpid())
    assert tracing.since_start(began) <= row["opened_ns"] <= row["established_ns"] <= tracing.since_start(ended)
    assert row["connect_ms"] == pytest.approx((row["established_ns"] - row["opened_ns"]) / 1e6)


def test_refused_whether_waited_for_or_not(trace, keep):
    tracing = trace()
    with serve() as listener:
        target = listener.getsockname()
    numbers = []
    for blocking in (True, False, True):
        sock = keep(socket.socket())
        sock.setblocking(blocking)
        sock.connect_ex(target)
        numbers.append(cookie(sock))
    ends = tracing.stop().connections
    assert sorted(ends["cookie"]) == sorted(numbers)
    assert set(ends["outcome"]) == {"refused"}
    assert set(ends["error"]) == {"ECONNREFUSED"}
    assert set(ends["remote_port"]) == {target[1]}
    assert ends["close"].isna().all()


def test_a_filtered_connect_times_out_is_given_up_or_is_still_waiting(trace, network, keep):
    """The child lives in the namespace: what still waits at the end is found there."""
    network.rules("tcp dport 4242 drop")
    network.run("sysctl", "-qw", "net.ipv4.tcp_syn_retries=1", "net.ipv4.tcp_syn_linear_timeouts=0")
    tracing = trace()
    here, there = keep(*socket.socketpair())

    def attempt():
        with network.inside():
            patient, hasty, waiting = socks = [socket.socket() for _ in range(3)]
            for sock in socks:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 6)
            patient.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)
            assert [sock.connect_ex(("127.0.0.1", 4242)) for sock in socks] == [EINPROGRESS] * 3
            there.sendall(struct.pack("=QQQ", *map(cookie, socks)))
            time.sleep(0.2)
            hasty.close()
            select.select([], [patient], [], 8)
            there.sendall(b"timeout" if patient.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 110 else b"?")
            there.recv(1)
            waiting.close()

    child = in_child(attempt)
    numbers = struct.unpack("=QQQ", here.recv(24))
    assert here.recv(10) == b"timeout"
    tracing.stop()
    here.sendall(b".")
    ended_well([child])
    rows = [tracing.row(number) for number in numbers]
    assert [row["outcome"] for row in rows] == ["timeout", "cancelled", "pending"]
    assert [row["error"] for row in rows] == ["ETIMEDOUT", None, None]
    assert [row["syn_retransmits"] for row in rows[:2]] == [1, 0]
    assert [row["pid"] for row in rows] == [child] * 3
    assert math.isnan(rows[2]["established_ns"])
    assert not any(row["never_sent"] for row in rows)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("unreachable", "EHOSTUNREACH"), ("prohibit", "EACCES"), ("blackhole", "EINVAL"), (None, "ENETUNREACH")],
)
def test_without_a_way_nothing_is_sent_and_that_is_said(kind, error, trace, network, keep):
    if kind:
        network.run("ip", "route", "add", kind, "10.77.9.0/24")
    tracing = trace()
    with network.inside():
        sock = keep(socket.socket())
    assert errno.errorcode[sock.connect_ex(("10.77.9.1", 443))] == error
    number = cookie(sock)
    sock.close()
    tracing.stop()
    row = tracing.row(number)
    assert (row["outcome"], row["never_sent"], row["role"]) == ("unreachable", True, "client")
    assert (row["remote_ip"], row["remote_port"], row["pid"]) == ("10.77.9.1", 443, os.getpid())


def test_an_answer_of_host_unreachable(trace, network, keep):
    """The SYN leaves and a router's word comes back."""
    network.rules("tcp dport 4242 reject with icmp type host-unreachable")
    tracing = trace()
    with network.inside():
        sock = keep(socket.socket())
    assert errno.errorcode[sock.connect_ex(("127.0.0.1", 4242))] == "EHOSTUNREACH"
    number = cookie(sock)
    tracing.stop()
    row = tracing.row(number)
    assert (row["outcome"], row["error"], row["never_sent"]) == ("unreachable", "EHOSTUNREACH", False)


def test_a_reset_during_the_handshake_is_refused_at_once(trace, network, keep):
    network.rules("tcp dport 4242 reject with tcp reset")
    tracing = trace()
    with network.inside():
        sock = keep(socket.socket())
    assert sock.connect_ex(("127.0.0.1", 4242)) == errno.ECONNREFUSED
    number = cookie(sock)
    tracing.stop()
    assert tracing.row(number)["outcome"] == "refused"


def test_when_no_local_port_is_left(trace, network, keep):
    network.run("sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40003")
    tracing = trace()
    with network.inside():
        listener = keep(serve())
        socks = keep(*(socket.socket() for _ in range(6)))
    results = [sock.connect_ex(listener.getsockname()) for sock in socks]
    failed = [sock for sock, result in zip(socks, results, strict=True) if result == EADDRNOTAVAIL]
    assert len(failed) >= 2
    numbers = [cookie(sock) for sock in failed]
    for sock in socks:
        sock.close()
    tracing.stop()
    for number in numbers:
        row = tracing.row(number)
        assert (row["outcome"], row["error"], row["never_sent"]) == ("unreachable", "EADDRNOTAVAIL", True)
        assert row["remote_port"] == listener.getsockname()[1]


def test_keepalive_is_seen(trace, keep):
    tracing = trace()
    listener = keep(serve())
    asked, _ = keep(*half(listener))
    silent, _ = keep(*half(listener))
    asked.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    numbers = cookie(asked), cookie(silent)
    tracing.stop()
    assert [tracing.row(number)["keepalive_probes"] for number in numbers] == [True, False]


def test_connections_older_than_the_trace(trace, keep):
    listener = keep(serve())
    client, server = keep(*half(listener))
    client.sendall(b"x" * 3000)
    drain(server, 3000)
    server.sendall(b"y" * 70)
    drain(client, 70)
    time.sleep(0.06)
    tracing = trace()
    client.sendall(b"z" * 5)
    drain(server, 5)
    numbers = cookie(client), cookie(server)
    tracing.stop()
    mine, theirs = map(tracing.row, numbers)
    assert (mine["preexisting"], mine["role"], theirs["role"]) == (True, "client", "server")
    assert (mine["bytes_sent"], mine["bytes_received"]) == (3005, 70)
    assert (theirs["bytes_sent"], theirs["bytes_received"]) == (70, 3005)
    assert math.isnan(mine["opened_ns"])
    assert math.isnan(mine["connect_ms"])
    assert (mine["pid"], theirs["pid"], mine["sends"]) == (os.getpid(), os.getpid(), 1)


def test_one_tuple_used_by_two_connections(trace, keep):
    tracing = trace()
    listener = keep(serve())
    numbers, local = [], 0
    for size in (10, 20):
        client = keep(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("127.0.0.1", local))
        client.connect(listener.getsockname())
        local = client.getsockname()[1]
        server = keep(listener.accept()[0])
        client.sendall(b"x" * size)
        drain(server, size)
        numbers.append(cookie(client))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        server.close()
    ends = tracing.stop().connections
    rows = [tracing.row(number) for number in numbers]
    assert [row["local_port"] for row in rows] == [local, local]
    assert [row["bytes_sent"] for row in rows] == [10, 20]
    assert len(ends) == 4


def test_one_socket_that_connects_twice_makes_two_connections(trace, keep):
    """After a refused connect, and after a connection that was dissolved, the same socket may connect again."""
    tracing = trace()
    listener = keep(serve())
    with serve() as gone:
        nobody = gone.getsockname()
    client = keep(socket.socket())
    assert client.connect_ex(nobody) == errno.ECONNREFUSED
    client.connect(listener.getsockname())
    server = keep(listener.accept()[0])
    client.sendall(b"first")
    drain(server, 5)
    unspecified = struct.pack("=H14x", socket.AF_UNSPEC)
    assert ctypes.CDLL(None).connect(client.fileno(), unspecified, len(unspecified)) == 0
    client.connect(listener.getsockname())
    again = keep(listener.accept()[0])
    client.sendall(b"second")
    drain(again, 6)
    number = cookie(client)
    ends = tracing.stop().connections
    mine = ends[ends["cookie"] == number]
    assert mine["outcome"].tolist() == ["refused", "established", "established"]
    assert mine["bytes_sent"].tolist() == [0, 5, 6]
    assert mine["remote_port"].tolist() == [nobody[1], listener.getsockname()[1], listener.getsockname()[1]]


def test_a_socket_that_was_handed_to_another_process(trace, keep):
    tracing = trace()
    listener = keep(serve())
    client, server = keep(*half(listener))
    client.sendall(b"mine")
    here, there = keep(*socket.socketpair(socket.AF_UNIX))

    def use():
        _, fds, _, _ = socket.recv_fds(there, 10, 1)
        with socket.socket(fileno=fds[0]) as passed:
            passed.sendall(b"theirs")

    child = in_child(use)
    socket.send_fds(here, [b"f"], [client.fileno()])
    ended_well([child])
    drain(server, 10)
    number = cookie(client)
    tables = tracing.stop()
    row = tracing.row(number)
    assert (row["pid"], row["io_pid"], row["shared"]) == (os.getpid(), os.getpid(), True)
    mine = tables.bursts[tables.bursts["connection"] == row.name]
    assert [(int(pid), int(size)) for pid, size in zip(mine["pid"], mine["bytes"], strict=True)] == [
        (os.getpid(), 4), (child, 6),
    ]  # fmt: skip


def test_a_socket_that_a_child_inherited(trace, keep):
    tracing = trace()
    client, server = keep(*half(keep(serve())))
    child = in_child(lambda: client.sendall(b"from the child"))
    ended_well([child])
    drain(server, 14)
    number = cookie(client)
    tracing.stop()
    row = tracing.row(number)
    assert (row["pid"], row["io_pid"], row["bytes_sent"]) == (os.getpid(), child, 14)


@pytest.mark.parametrize("reads", [True, False])
def test_a_worker_that_only_sees_the_end_owns_its_connection(reads, trace, keep):
    """The client connects and leaves without a word; no call of the worker moves a byte."""
    tracing = trace()
    listener = keep(serve())

    def work():
        with listener.accept()[0] as sock:
            assert not reads or sock.recv(100) == b""
            time.sleep(0 if reads else 0.1)

    worker = in_child(work)
    socket.create_connection(listener.getsockname()).close()
    ended_well([worker])
    ends = tracing.stop().connections
    assert ends[ends["role"] == "server"]["pid"].tolist() == [worker]
    assert ends[ends["role"] == "server"]["closed_by"].tolist() == ["remote"]


def test_a_socket_that_connects_to_itself(trace, keep):
    tracing = trace()
    sock = keep(socket.socket())
    sock.bind(("127.0.0.1", 0))
    sock.connect(sock.getsockname())
    sock.sendall(b"hello")
    drain(sock, 5)
    number = cookie(sock)
    ends = tracing.stop().connections
    row = tracing.row(number)
    assert len(ends) == 1
    assert (row["role"], row["outcome"], row["local_port"]) == ("client", "established", row["remote_port"])
    assert (row["bytes_sent"], row["bytes_received"], row["pid"]) == (5, 5, os.getpid())


def test_data_in_the_syn(trace, keep):
    """TCP Fast Open: the request travels with the SYN."""
    if int(Path("/proc/sys/net/ipv4/tcp_fastopen").read_text()) & 1 == 0:
        pytest.skip("needs TCP Fast Open for clients (net.ipv4.tcp_fastopen)")
    tracing = trace()
    listener = keep(serve())
    client = keep(socket.socket())
    client.sendto(b"hello", socket.MSG_FASTOPEN, listener.getsockname())
    server = keep(listener.accept()[0])
    drain(server, 5)
    number = cookie(client)
    tracing.stop()
    row = tracing.row(number)
    assert (row["outcome"], row["role"], row["pid"], row["bytes_sent"]) == ("established", "client", os.getpid(), 5)
