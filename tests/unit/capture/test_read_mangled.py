# SPDX-License-Identifier: Apache-2.0
"""Mangled captures: an answer, or an error with the offset; never a traceback, never long, never large."""

from __future__ import annotations

import gzip
import os
import random
import resource
import struct
import time
from pathlib import Path

import pytest

from netdiag import tables
from netdiag.analysis import Options, examine
from netdiag.capture import read
from netdiag.document import build
from netdiag.errors import InputUnreadable
from netdiag.render import Options as Forms
from netdiag.render import render
from tests.fakes import packets as p
from tests.fakes.mangle import COUNT, mangled

CAPTURES = Path(__file__).resolve().parents[2] / "captures"
COUNT = min(COUNT, 80) if "NETDIAG_FUZZ_EXAMPLES" not in os.environ else COUNT
LONGEST_S = 2.0
LARGEST_MB = 300


def seeds():
    """Return good files of every form, with every kind of packet."""
    found = [path.read_bytes() for path in sorted(CAPTURES.glob("*.pcap"))]
    talk = p.http()
    frames = [
        *talk.packets,
        (2.0, p.ethernet(p.ip("192.0.2.1", "192.0.2.2", talk.packets[3][1][14:], protocol=4))),
        (
            2.1,
            p.ethernet(
                p.ip("10.0.0.1", "10.0.0.2", p.udp(5, 4789, b"\x08" + bytes(7) + talk.packets[4][1]), protocol=17)
            ),
        ),
        (2.2, p.ethernet(p.ip("10.0.0.1", "10.0.0.2", bytes(64), protocol=17, number=3, fragment=0x2000))),
        (2.3, p.ethernet(p.ip("10.0.0.1", "10.0.0.2", bytes(64), protocol=17, number=3, fragment=8))),
        (2.4, p.ethernet(p.ip("2001:db8::1", "2001:db8::2", bytes((6, 0)) + bytes(6) + bytes(30), protocol=0))),
        (2.5, p.ethernet(b"\x00\x01\x01\x40" + talk.packets[0][1][14:], 0x8847)),
    ]
    found += [p.pcap(frames), p.pcap(frames, order=">", nano=True), p.pcapng(frames), p.pcapng(frames, order=">")]
    named = p.block(4, struct.pack("<HH", 1, 8) + bytes([10, 0, 0, 2]) + b"abc\0" + struct.pack("<HH", 0, 0))
    secret = p.block(10, struct.pack("<II", 0x544C534B, 4) + b"abcd")
    found.append(p.section() + named + secret + p.pcapng(frames)[28:])
    return found


def say(data):
    """Return what the command would print."""
    recording = read(data)
    built = tables.build(recording)
    found = examine(built, Options())
    assert [failure.reason for failure in found.failures] == []
    return render("table", build(recording, built, found.findings), Forms())


def answer(data):
    """Have it said, or refused with an offset."""
    try:
        say(data)
    except InputUnreadable as error:
        refused = error.message
    else:
        return
    assert "byte" in refused, refused


@pytest.mark.fuzz
def test_mangled_captures_are_answered_or_refused():
    slowest = 0.0
    for data in mangled(seeds(), COUNT, seed=3):
        began = time.process_time()
        answer(data)
        slowest = max(slowest, time.process_time() - began)
    assert slowest < LONGEST_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3 < 3 * LARGEST_MB  # of the whole test process


@pytest.mark.fuzz
def test_headers_that_lie_are_answered_or_refused():
    """Numbers of four bytes anywhere in the headers become the largest, the least, and any."""
    draw = random.Random(5)
    good = seeds()
    for _ in range(COUNT):
        data = bytearray(draw.choice(good))
        for _ in range(draw.choice((1, 2, 9))):
            place = draw.randrange(max(len(data) - 4, 1)) if draw.random() < 0.5 else draw.randrange(60)
            data[place : place + 4] = draw.choice(
                (b"\xff\xff\xff\xff", bytes(4), b"\x7f\xff\xff\xff", draw.randbytes(4))
            )
        packed = gzip.compress(bytes(data), 1) if draw.random() < 0.2 else bytes(data)
        answer(packed)


def test_many_empty_packets_take_no_time():
    data = p.pcap([]) + bytes(16) * 500_000
    began = time.process_time()
    say(data)
    assert time.process_time() - began < LONGEST_S


def test_many_short_blocks_take_no_time():
    data = p.section() + p.interface() + p.block(0xBAD, b"") * 500_000
    began = time.process_time()
    say(data)
    assert time.process_time() - began < LONGEST_S
    turns = (p.section() + p.section(">")) * 20_000
    began = time.process_time()
    say(turns)
    assert time.process_time() - began < LONGEST_S
