# SPDX-License-Identifier: Apache-2.0
"""The recorder's end of the socket for plaintext: never waits, loses nothing by itself, notices that nobody reads."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from netdiag.recorder.plain import PlainSocket
from netdiag.recording.pieces import Frames
from netdiag.testing import struct_layout

LAYOUT = struct_layout("plain_event").in_ring(stream=11, name="plain")
RUN = memoryview(bytes(LAYOUT.stride) * 100)


@pytest.fixture(params=[socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def ends(request):
    here, there = socket.socketpair(socket.AF_UNIX, request.param)
    there.settimeout(5)
    with there:
        yield PlainSocket(here.detach(), [LAYOUT]), there


def read_all(there, frames, into):
    while data := there.recv(1 << 18):
        into += [body for _, body in frames.feed(data)]


def test_layouts_come_first_and_losses_last(ends):
    plain, there = ends
    frames = Frames()
    found: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(there, frames, found))
    reader.start()
    assert plain.records(11, [RUN, RUN])
    plain.finish({"plain": (200, 3)}, time.monotonic() + 5)
    reader.join(5)
    assert b"".join(found) == bytes(RUN) * 2
    assert frames.losses == {"plain": {"seen": 200, "lost": 3}}


def test_up_to_when_all_was_sent_is_said_twice_after_records_and_not_when_nothing_comes(ends):
    plain, there = ends
    plain.all_sent(5)
    plain.records(11, [RUN])
    for at in (10, 20, 30, 40):
        plain.all_sent(at)
    plain.finish({}, time.monotonic() + 5)
    frames = Frames()
    while data := there.recv(1 << 18):
        for _ in frames.feed(data):
            pass
    assert frames.until == 20


def test_a_full_socket_takes_nothing_more_and_what_it_took_comes_whole(ends):
    plain, there = ends
    taken = 0
    began = time.monotonic()
    while plain.records(11, [RUN]):
        taken += 1
        assert taken < 10_000
    assert time.monotonic() - began < 5
    assert not plain.wait(time.monotonic() + 0.01)
    frames = Frames()
    found: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(there, frames, found))
    reader.start()
    assert plain.wait(time.monotonic() + 5)
    plain.finish({}, time.monotonic() + 5)
    reader.join(5)
    assert len(found) == taken
    assert set(found) == {bytes(RUN)}
    assert frames.losses == {}


def test_the_end_comes_in_time_where_nobody_reads(ends):
    plain, _ = ends
    while plain.records(11, [RUN]):
        pass
    began = time.monotonic()
    plain.finish({}, began + 0.2)
    assert 0.1 < time.monotonic() - began < 2


def test_a_reader_that_is_gone_is_noticed(ends):
    plain, there = ends
    there.close()
    assert plain.records(11, [RUN])
    assert plain.gone
    assert plain.records(11, [RUN])
    assert not plain.wait(time.monotonic() + 5)
    plain.finish({}, time.monotonic() + 5)
