# SPDX-License-Identifier: Apache-2.0
"""What passes through connections: bytes, calls, bursts, late reads, and every way into the kernel to send them."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import socket
import struct
import threading
import time

import pytest

from tests.kernel.harness import cookie, drain, half, serve, until

pytestmark = pytest.mark.kernel


def test_bytes_are_exact_in_both_directions(trace, keep):
    draw = random.Random(4242)
    tracing = trace()
    listener = keep(serve())
    told = {}
    for _ in range(100):
        there, back = (draw.choice([0, 1, 1448, 20_000, 65_536, 131_072]) for _ in range(2))
        client, server = half(listener)
        with client, server:
            sender = threading.Thread(target=client.sendall, args=(b"a" * there,))
            sender.start()
            drain(server, there)
            sender.join()
            sender = threading.Thread(target=server.sendall, args=(b"b" * back,))
            sender.start()
            drain(client, back)
            sender.join()
            told[cookie(client)], told[cookie(server)] = (there, back), (back, there)
    ends = tracing.stop().connections
    sizes = zip(ends["bytes_sent"], ends["bytes_received"], strict=True)
    assert dict(zip(ends["cookie"], sizes, strict=True)) == told
    assert tracing.loss("tcp")[1] == 0


def test_data_that_the_program_read_late(trace, keep):
    tracing = trace()
    client, server = keep(*half(keep(serve())))
    server.sendall(b"answer")
    sent = time.monotonic_ns()
    time.sleep(0.3)
    client.recv(100)
    read = time.monotonic_ns()
    number = cookie(client)
    tables = tracing.stop()
    row = tracing.row(number)
    mine = tables.bursts[(tables.bursts["connection"] == row.name) & (tables.bursts["direction"] == "receive")]
    assert len(mine) == 1
    assert mine["max_lag_ms"].iloc[0] == pytest.approx((read - sent) / 1e6, abs=5)
    assert row["first_received_ns"] == pytest.approx(tracing.since_start(sent), abs=5e6)
    assert row["last_read_ns"] == pytest.approx(tracing.since_start(read), abs=5e6)


def test_a_look_at_data_without_taking_it_is_no_reading(trace, keep):
    tracing = trace()
    client, server = keep(*half(keep(serve())))
    server.sendall(b"answer")
    until(lambda: client.recv(100, socket.MSG_PEEK))
    number = cookie(client)
    tracing.stop()
    row = tracing.row(number)
    assert (row["receives"], row["unread"], row["bytes_received"]) == (0, 6, 6)


def test_calls_in_a_row_are_one_burst_and_a_pause_ends_it(trace, keep):
    tracing = trace()
    client, server = keep(*half(keep(serve())))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    instants = []
    for sizes in ((100, 20, 3), (5000,), (7, 7)):
        instants.append(time.monotonic_ns())
        for size in sizes:
            client.sendall(b"x" * size)
        time.sleep(0.03)
    drain(server, 5137)
    number = cookie(client)
    tables = tracing.stop()
    mine = tables.bursts[tables.bursts["connection"] == tracing.row(number).name]
    assert mine[["bytes", "calls", "first_bytes"]].to_numpy().tolist() == [[123, 3, 100], [5000, 1, 5000], [14, 2, 7]]
    assert set(mine["direction"]) == {"send"}
    assert set(mine["tid"]) == {os.getpid()}
    for began, instant in zip(mine["began_ns"], instants, strict=True):
        assert began == pytest.approx(tracing.since_start(instant), abs=5e6)
    assert tracing.row(number)["sends"] == 6


def test_a_file_that_the_kernel_sends_by_itself(trace, keep, tmp_path):
    path = tmp_path / "body"
    path.write_bytes(bytes(50_000))
    tracing = trace()
    client, server = keep(*half(keep(serve())))
    with path.open("rb") as file:
        assert os.sendfile(client.fileno(), file.fileno(), 0, 50_000) == 50_000
    drain(server, 50_000)
    number = cookie(client)
    tables = tracing.stop()
    row = tracing.row(number)
    mine = tables.bursts[tables.bursts["connection"] == row.name]
    assert (row["bytes_sent"], mine["bytes"].sum(), row["io_pid"]) == (50_000, 50_000, os.getpid())


def test_data_that_is_spliced_from_and_to_a_pipe(trace, keep):
    tracing = trace()
    client, server = keep(*half(keep(serve())))
    out, into = os.pipe()
    os.write(into, bytes(4000))
    assert splice(out, client.fileno(), 4000) == 4000
    until(lambda: len(server.recv(5000, socket.MSG_PEEK)) == 4000)
    read = splice(server.fileno(), into, 4000)
    os.close(out)
    os.close(into)
    numbers = cookie(client), cookie(server)
    tracing.stop()
    mine, theirs = map(tracing.row, numbers)
    assert (mine["bytes_sent"], mine["sends"] > 0) == (4000, True)
    assert (theirs["bytes_received"], theirs["unread"]) == (4000, 4000 - read)


def splice(source, target, count):
    return ctypes.CDLL(None, use_errno=True).splice(source, None, target, None, ctypes.c_size_t(count), 0)


def test_sends_and_receives_through_io_uring(trace, keep):
    ring = keep(Uring())
    tracing = trace()
    client, server = keep(*half(keep(serve())))
    buffer = ctypes.create_string_buffer(b"through the ring", 16)
    assert ring.call(Uring.SEND, client.fileno(), buffer) == 16
    assert ring.call(Uring.RECV, server.fileno(), buffer) == 16
    numbers = cookie(client), cookie(server)
    tracing.stop()
    mine, theirs = map(tracing.row, numbers)
    assert (mine["bytes_sent"], mine["sends"], mine["io_pid"]) == (16, 1, os.getpid())
    assert (theirs["bytes_received"], theirs["receives"], theirs["pid"]) == (16, 1, os.getpid())


class Uring:
    """One submission at a time, by the structs of include/uapi/linux/io_uring.h."""

    SEND, RECV = 26, 27

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        params = ctypes.create_string_buffer(120)
        self.fd = self.libc.syscall(425, 4, params)
        if self.fd < 0:
            pytest.skip(f"needs io_uring: {os.strerror(ctypes.get_errno())}")
        self.sq = struct.unpack_from("=10I", params, 40)
        self.cq = struct.unpack_from("=10I", params, 80)
        entries, completions = struct.unpack_from("=II", params)
        self.ring = mmap.mmap(self.fd, max(self.sq[6] + entries * 4, self.cq[5] + completions * 16), offset=0)
        self.sqes = mmap.mmap(self.fd, entries * 64, offset=0x10000000)

    def word(self, at):
        return int.from_bytes(self.ring[at : at + 4], "little")

    def put(self, at, value):
        self.ring[at : at + 4] = value.to_bytes(4, "little")

    def call(self, operation, fd, buffer):
        self.sqes[:64] = struct.pack("=BBHiQQI", operation, 0, 0, fd, 0, ctypes.addressof(buffer), 16).ljust(64, b"\0")
        tail = self.word(self.sq[1])
        self.put(self.sq[6] + 4 * (tail & self.word(self.sq[2])), 0)
        self.put(self.sq[1], tail + 1)
        assert self.libc.syscall(426, self.fd, 1, 1, 1, None, 0) == 1
        head = self.word(self.cq[0])
        at = self.cq[5] + 16 * (head & self.word(self.cq[2]))
        (result,) = struct.unpack("=i", self.ring[at + 8 : at + 12])
        self.put(self.cq[0], head + 1)
        return result

    def close(self):
        os.close(self.fd)
