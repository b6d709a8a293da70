# SPDX-License-Identifier: Apache-2.0
"""ICMP quotes the SYN that did not get through: the attempt failed, and why."""

from __future__ import annotations

import struct

import pytest

from tests.fakes import packets as p
from tests.unit.capture.capturing import codes, connection, table

V4 = ("10.0.0.1", "10.0.0.2", "192.168.7.1")
V6 = ("2001:db8::1", "2001:db8::2", "2001:db8:f::1")


def icmp(kind, code, quoted):
    return struct.pack(">BBHI", kind, code, 0, 0) + quoted


def refused(kind, code, *, ends=V4, quote=28, number=None, syns=1):
    """Return a file in which a router refuses SYNs; `quote` bytes of each come back."""
    client, server, router = ends
    talk = p.Talk(client=(client, 40000), server=(server, 443))
    for _ in range(syns):
        segment = p.tcp(40000, 443, 1000, 0, p.SYN)
        syn = p.ip(client, server, segment)
        talk.packets.append((talk.at, p.ethernet(syn)))
        quoted = p.ip(client, server, p.tcp(40000, 443, number, 0, p.SYN)) if number else syn
        answer = p.ip(router, client, icmp(kind, code, quoted[:quote]), protocol=1 if ":" not in client else 58)
        talk.packets.append((talk.at + 0.02, p.ethernet(answer)))
        talk.at += 1.0
    return talk


@pytest.mark.parametrize(
    ("kind", "code", "error", "outcome"),
    [
        (3, 0, "ENETUNREACH", "unreachable"),
        (3, 1, "EHOSTUNREACH", "unreachable"),
        (3, 3, "ECONNREFUSED", "refused"),
        (3, 10, "EHOSTUNREACH", "unreachable"),
        (3, 13, "EHOSTUNREACH", "unreachable"),
        (11, 0, "EHOSTUNREACH", "unreachable"),
    ],
)
def test_a_refused_syn_is_a_failed_attempt(kind, code, error, outcome):
    row = connection(p.pcap(refused(kind, code).packets))
    assert (row.outcome, row.error) == (outcome, error)
    assert row.ended_ns == pytest.approx(20e6)


@pytest.mark.parametrize(
    ("kind", "code", "error", "outcome"),
    [
        (1, 0, "ENETUNREACH", "unreachable"),
        (1, 1, "EACCES", "unreachable"),
        (1, 3, "EHOSTUNREACH", "unreachable"),
        (1, 4, "ECONNREFUSED", "refused"),
        (3, 0, "EHOSTUNREACH", "unreachable"),
    ],
)
def test_the_same_of_version_6(kind, code, error, outcome):
    row = connection(p.pcap(refused(kind, code, ends=V6, quote=60).packets))
    assert (row.outcome, row.error) == (outcome, error)


def test_a_syn_that_is_sent_again_all_the_same():
    row = connection(p.pcap(refused(3, 13, syns=3).packets))
    assert (row.outcome, row.syn_retransmits) == ("unreachable", 2)


@pytest.mark.parametrize(
    ("kind", "code", "options"),
    [
        (3, 4, {}),  # too big: the path is told, nobody is refused
        (5, 1, {}),  # redirect
        (8, 0, {}),  # echo
        (3, 1, {"number": 4711}),  # of another SYN on the same ends
        (3, 1, {"quote": 24}),  # too little of it is quoted
    ],
)
def test_what_refuses_no_syn_of_this_connection_changes_nothing(kind, code, options):
    row = connection(p.pcap(refused(kind, code, **options).packets))
    assert row.outcome == "pending"


def test_an_established_connection_stays_one():
    """Routes come and go: what is quoted later is a segment of a connection that stands."""
    talk = p.http()
    quoted = p.ip("10.0.0.1", "10.0.0.2", p.tcp(40000, 80, 1000, 0, p.SYN))
    talk.packets.append((talk.at, p.ethernet(p.ip("192.168.7.1", "10.0.0.1", icmp(3, 1, quoted[:28]), protocol=1))))
    assert connection(talk.file()).outcome == "established"


def test_the_answer_wins_that_came_before():
    talk = refused(3, 1)
    talk.packets.insert(1, (0.001, p.ethernet(p.ip("10.0.0.2", "10.0.0.1", p.tcp(443, 40000, 5, 1001, 18)))))
    assert connection(p.pcap(talk.packets)).outcome != "unreachable"


def test_several_refusals_are_a_finding():
    packets = []
    for turn in range(3):
        for at, frame in refused(3, 13).packets:
            port = struct.pack(">H", 40000)
            packets.append((at + turn, frame.replace(port, struct.pack(">H", 41000 + turn))))
    assert table(p.pcap(packets))["outcome"].tolist() == ["unreachable"] * 3
    assert "tcp.connect-timeout" in codes(p.pcap(packets))


def test_no_message_is_too_short_or_too_odd():
    whole = refused(3, 1).packets[1][1]
    frames = [whole[:cut] for cut in range(14, len(whole))]
    frames += [whole[:at] + bytes([value]) + whole[at + 1 :] for at in range(34, len(whole)) for value in (0, 15, 255)]
    file = p.pcap((index / 1e3, frame) for index, frame in enumerate(frames))
    assert len(table(file)) == 0
