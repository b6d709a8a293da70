# SPDX-License-Identifier: Apache-2.0
"""Records and facts of a capture have the form of a live trace's, and nothing in them must not be kept."""

from __future__ import annotations

import base64
import zlib

import pytest

from netdiag.capture.flows import Flow
from netdiag.capture.rows import Hellos
from netdiag.decode.kept import redact
from netdiag.tables.codes import IoFlags
from tests.fakes import handshake as tls
from tests.fakes import packets as p
from tests.unit.capture.capturing import read, table


def text(fact):
    return zlib.decompress(base64.b64decode(fact["data"]))


def test_a_hello_is_cut_and_equal_ones_are_written_once():
    hellos = Hellos()
    secret = tls.modern(psk=True)
    for number in range(3):
        flow = Flow(number=number, ends=((b"", 1), (b"", 2)), first_ns=0)
        hellos.say(flow, True, p.record(22, secret), 5, True)
    first, second, third = hellos.facts
    assert text(first) == redact(secret)
    assert (second["same"], third["same"]) == (first["id"], first["id"])
    assert "data" not in second
    assert [fact["cookie"] for fact in hellos.facts] == [1, 2, 3]
    assert first["session"] is None or len(first["session"]) <= 8


def test_bursts_break_at_pauses_and_turns():
    talk = p.Talk(server=("10.0.0.2", 80)).open()
    talk.say(True, b"a" * 100, after=0.01)
    talk.say(True, b"b" * 50, after=0.0001)
    talk.say(False, b"c" * 10, after=0.02)
    talk.say(False, b"d" * 20, after=0.0005)
    talk.say(False, b"e" * 30, after=0.5)
    found = table(talk.file(), "bursts")
    assert found["direction"].tolist() == ["send", "receive", "receive"]
    assert found["bytes"].tolist() == [150, 30, 30]
    assert found["calls"].tolist() == [2, 2, 1]
    assert found["first_bytes"].tolist() == [100, 10, 30]


@pytest.mark.parametrize("chunk", [200, 1 << 20])
def test_a_burst_over_two_batches_is_one(chunk, monkeypatch):
    monkeypatch.setattr("netdiag.capture.container._CHUNK", chunk)
    talk = p.Talk(server=("10.0.0.2", 80)).open()
    for _ in range(40):
        talk.say(False, b"x" * 60, after=0.0002)
    found = table(talk.file(), "bursts")
    assert found["bytes"].tolist() == [2400]
    raw = read(talk.file()).records("tcp_io")
    assert (raw["flags"] & IoFlags.CONTINUED).any()


def test_numbers_too_large_for_a_record_do_not_overflow():
    talk = p.Talk(server=("10.0.0.2", 80)).open()
    talk.say(True, b"x", after=0.01)
    talk.say(False, window=0, after=0.01)
    talk.say(False, after=9_000_000.0)  # a hundred days
    [row] = table(talk.file()).itertuples()
    assert row.peer_window_ms > 0
