# SPDX-License-Identifier: Apache-2.0
"""Packets that overtake each other on the way to the file change nothing of what is told."""

from __future__ import annotations

import pytest

from tests.fakes import packets as p
from tests.unit.capture.capturing import codes, connection, table


def conversation(turns: int = 3) -> p.Talk:
    talk = p.Talk(server=("10.0.0.2", 80)).open()
    for _ in range(turns):
        head, body = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n", b"x" * 2000
        talk.say(True, b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n", after=0.01)
        talk.say(False, head, after=0.01)
        talk.say(False, body[:1000], after=0.0001)
        talk.say(False, body[1000:], after=0.0001)
        talk.say(True, after=0.0001)
    return talk.close()


def swapped(talk: p.Talk, places: list[int]) -> bytes:
    """Return the file with packets at these places and those behind them changed; stamps stay in order."""
    packets = list(talk.packets)
    for at in places:
        (one, first), (two, second) = packets[at], packets[at + 1]
        packets[at], packets[at + 1] = (one, second), (two, first)
    return p.pcap(packets)


@pytest.mark.parametrize("places", [[4], [5], [4, 9, 14], [5, 10, 15]])
def test_answers_whose_parts_change_places_are_whole(places):
    talk = conversation()
    for file in (talk.file(), swapped(talk, places)):
        requests = table(file, "requests")
        assert requests["status"].tolist() == [200, 200, 200]
        assert requests["complete"].tolist() == [True, True, True]


def test_a_syn_behind_its_answer_is_no_second_connection():
    talk = conversation(1)
    row = connection(swapped(talk, [0]))
    assert (row.role, row.local_port, row.outcome, bool(row.preexisting)) == ("client", 40000, "established", False)


@pytest.mark.parametrize(("after", "count"), [(0.005, 1), (0.0001, 0)])
def test_a_fin_that_is_sent_again_counts_and_one_captured_twice_does_not(after, count):
    talk = p.Talk(server=("10.0.0.2", 80)).open().ask(p.REQUEST, p.ANSWER)
    talk.say(True, flags=p.FIN | p.ACK)
    talk.say(True, flags=p.FIN | p.ACK, after=after, seq=talk.seqs[0] - 1)
    talk.say(False, flags=p.FIN | p.ACK, after=0.01)
    assert connection(talk.file()).retransmits == count


def uplinks(*, acknowledged: bool, ours: bool, seq: int = 1000) -> bytes:
    """Return calls of which a segment comes again half a second later, behind its acknowledgement or without one."""
    found: list[tuple[float, bytes]] = []
    for number in range(4):
        talk = p.Talk(client=("10.0.0.1", 40000 + number), server=("10.0.0.2", 80), rtt=0.02, at=number * 3.0)
        talk.seqs = [seq, seq]
        talk.open()
        said, at = p.REQUEST if ours else p.ANSWER, 0
        if not ours:
            talk.say(True, p.REQUEST, after=0.01)
        for part in range(3):  # of one message, which takes its time
            at = talk.seqs[not ours]
            talk.say(ours, said[part::3], after=0.01)
        if acknowledged:
            talk.say(not ours, after=0.02)
        talk.say(ours, said[2::3], after=0.5, seq=at)
        talk.say(not ours, p.ANSWER if ours else b"", after=0.4)
        found += talk.close(after=0.01).packets
    return p.pcap(found)


@pytest.mark.parametrize("seq", [1000, 2**32 - 30])
@pytest.mark.parametrize("ours", [True, False])
def test_what_is_sent_again_behind_its_acknowledgement_costs_nothing(*, ours: bool, seq: int) -> None:
    needless, needed = (uplinks(acknowledged=one, ours=ours, seq=seq) for one in (True, False))
    for data in (needless, needed):
        assert table(data)["retransmits"].tolist() == [1, 1, 1, 1]  # they were sent all the same
    assert len(table(needless, "retransmits")) == 0
    assert len(table(needed, "retransmits")) == 4
    assert "tcp.retransmits" not in codes(needless)
    if ours:
        assert "tcp.retransmits" in codes(needed)
