# SPDX-License-Identifier: Apache-2.0
"""How connections open and close, as packets show it: who, when, and what stays unknown."""

from __future__ import annotations

import math

import pytest

from tests.fakes import packets as p
from tests.unit.capture.capturing import connection, table


def test_a_connection_from_start_to_end():
    row = connection(p.http().file())
    assert (row.role, row.outcome, row.local_port, row.remote_ip, row.remote_port) == (
        "client", "established", 40000, "10.0.0.2", 80,
    )  # fmt: skip
    assert row.connect_ms == pytest.approx(10.01)
    assert row.min_rtt_ms == pytest.approx(10.01, abs=0.02)
    assert (row.closed_by, row.close, bool(row.preexisting)) == ("local", "fin", False)
    assert row.idle_before_close_ms == pytest.approx(500, abs=1)


@pytest.mark.parametrize("where", ["client", "server"])
def test_the_round_trip_is_the_same_wherever_packets_are_captured(where):
    """At the server the SYN is answered at once, and the acknowledgement takes the round trip."""
    talk = p.Talk(rtt=0.00001)
    talk.say(True, flags=p.SYN)
    talk.say(False, flags=p.SYN | p.ACK, after=0.03 if where == "client" else 0.00001)
    talk.say(True, after=0.00001 if where == "client" else 0.03)
    row = connection(talk.file())
    assert row.connect_ms == pytest.approx(30, abs=0.1)
    assert row.min_rtt_ms == pytest.approx(30, abs=0.1)


def test_the_server_closes_first():
    row = connection(p.Talk(server=("10.0.0.2", 80)).open().ask(p.REQUEST, p.ANSWER).close(ours=False, after=3).file())
    assert (row.closed_by, row.close) == ("remote", "fin")
    assert row.idle_before_close_ms == pytest.approx(3000, abs=1)


def test_a_reset_behind_a_clean_close_closes_nothing():
    talk = p.http()
    talk.say(True, flags=p.RST, after=0.01)
    row = connection(talk.file())
    assert (row.closed_by, row.close) == ("local", "fin")


def test_a_reset_closes():
    talk = p.Talk(server=("10.0.0.2", 80)).open().ask(p.REQUEST, p.ANSWER)
    talk.say(False, flags=p.RST | p.ACK, after=0.7)
    row = connection(talk.file())
    assert (row.closed_by, row.close, row.error) == ("remote", "rst", "ECONNRESET")


def test_one_side_closed_and_the_file_ends():
    talk = p.Talk(server=("10.0.0.2", 80)).open().ask(p.REQUEST, p.ANSWER)
    talk.say(False, flags=p.FIN | p.ACK, after=1)
    row = connection(talk.file())
    assert (row.closed_by, row.close) == ("remote", "fin")
    assert math.isnan(row.ended_ns)


def test_refused():
    talk = p.Talk()
    talk.say(True, flags=p.SYN)
    talk.say(False, flags=p.RST | p.ACK, after=0.01)
    row = connection(talk.file())
    assert (row.outcome, row.error, row.closed_by) == ("refused", "ECONNREFUSED", None)


def waiting(syns, silence):
    talk = p.Talk()
    start = talk.seqs[0]
    for number in range(syns):
        talk.say(True, flags=p.SYN, after=2.0 ** (number - 1) if number else 0, seq=start)
    other = p.http(client=("10.0.0.9", 50000), at=talk.at + silence)
    rows = table(p.pcap(talk.packets + other.packets))
    return next(rows[rows["remote_port"] == 443].itertuples())


def test_a_syn_that_nobody_answers():
    row = waiting(3, 30)
    assert (row.outcome, row.syn_retransmits, row.retransmits) == ("timeout", 2, 2)
    assert waiting(1, 30).outcome == "cancelled"  # given up before it was sent again: the loser of a race
    assert waiting(2, 1).outcome == "pending"


def test_a_syn_sent_again_and_answered():
    talk = p.Talk()
    talk.say(True, flags=p.SYN, seq=1000)
    talk.say(True, flags=p.SYN, after=1, seq=1000)
    talk.seqs[0] = 1001
    talk.say(False, flags=p.SYN | p.ACK, after=0.02)
    talk.say(True, after=0.00001)
    row = connection(talk.file())
    assert (row.outcome, row.syn_retransmits) == ("established", 1)
    assert row.connect_ms == pytest.approx(1020, abs=1)
    assert row.min_rtt_ms == pytest.approx(20, abs=1)  # of the one that was answered


def test_ends_that_are_used_again_are_another_connection():
    first = p.http()
    second = p.http(seqs=[555_000, 777_000], at=first.at + 1)
    third = p.Talk(server=("10.0.0.2", 80), seqs=[5, 6], at=second.at + 1).open()
    rows = table(p.pcap(first.packets + second.packets + third.packets))
    assert rows["closed_by"].tolist() == ["local", "local", None]
    assert rows["bytes_sent"].tolist() == [len(p.REQUEST), len(p.REQUEST), 0]
    assert rows["id"].tolist() == ["c1", "c2", "c3"]


@pytest.mark.parametrize("ours", [True, False])
def test_one_direction_alone(ours):
    talk = p.http()
    one = [(at, frame) for at, frame in talk.packets if (frame[34:36] == (40000).to_bytes(2, "big")) == ours]
    row = connection(p.pcap(one))
    assert (row.role, row.outcome, row.local_port) == ("client", "established", 40000)
    assert row.bytes_sent == (len(p.REQUEST) if ours else 0)
    assert row.bytes_received == (0 if ours else len(p.ANSWER))


def test_a_window_that_is_shut():
    talk = p.Talk(server=("10.0.0.2", 80)).open()
    talk.say(True, p.REQUEST)
    talk.say(False, bytes(1000), after=0.01)
    talk.say(True, after=0.001, window=0)
    talk.say(False, b"\0", after=0.3, seq=talk.seqs[1] - 1)  # asks whether there is room: no keep-alive
    talk.say(True, after=0.001, window=0)
    talk.say(True, after=0.2)
    row = connection(talk.file())
    assert row.zero_window_ms == pytest.approx(501, abs=1)
    assert row.peer_window_ms == 0
    assert row.keepalive_probes is None


def test_the_server_has_no_room():
    talk = p.Talk(server=("10.0.0.2", 80)).open()
    talk.say(True, bytes(3000))
    talk.say(False, after=0.01, window=0)
    talk.say(False, after=0.4)
    row = connection(talk.file())
    assert row.peer_window_ms == pytest.approx(400, abs=2)
    assert row.zero_window_ms == 0


def test_the_smaller_segment_size_counts():
    talk = p.Talk()
    talk.say(True, flags=p.SYN, options=b"\x02\x04\x05\xb4")
    talk.say(False, flags=p.SYN | p.ACK, options=b"\x01\x01\x02\x04\x02\x18")
    assert connection(talk.file()).mss == 536


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("way", ["its own is lost", "the other's is lost", "its own comes behind it"])
def test_a_reset_that_counts_a_fin_was_sent_after_it(ours, way):
    """A connection of one side's FIN and a RST, of which the file lacks the FIN or has it in the wrong place."""
    talk = p.Talk(server=("10.0.0.2", 80)).open().ask(p.REQUEST, p.ANSWER)
    talk.say(ours, flags=p.FIN | p.ACK, after=0.5, lost=way != "its own comes behind it")
    if way == "the other's is lost":
        talk.say(not ours, flags=p.RST | p.ACK, after=0.01)
    else:
        talk.say(ours, flags=p.RST, after=0.00001)
    if way == "its own comes behind it":
        (_, fin), (at, rst) = talk.packets[-2:]
        talk.packets[-2:] = [(at, rst), (at, fin)]
    row = connection(talk.file())
    assert (row.closed_by, row.close) == ("local" if ours else "remote", "fin")
    talk = p.Talk(server=("10.0.0.2", 80)).open().ask(p.REQUEST, p.ANSWER)
    talk.say(ours, flags=p.RST | p.ACK, after=0.5)
    assert connection(talk.file()).close == "rst"


def test_a_connection_whose_syn_ack_the_file_lacks_was_not_refused():
    talk = p.Talk(server=("10.0.0.2", 80))
    talk.say(True, flags=p.SYN)
    talk.say(False, flags=p.SYN | p.ACK, after=0.01, lost=True)
    talk.say(True, after=0.00001)
    talk.ask(p.REQUEST, p.ANSWER)
    talk.say(False, flags=p.RST | p.ACK, after=0.5)
    row = connection(talk.file())
    assert (row.outcome, row.closed_by, row.close) == ("established", "remote", "rst")
