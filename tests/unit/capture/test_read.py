# SPDX-License-Identifier: Apache-2.0
"""One recording from any form of the same packets; what a capture cannot tell is said, and what breaks off is told."""

from __future__ import annotations

import gzip
import io
import math
import os
import struct

import pytest

from netdiag import tables
from netdiag.analysis.case import Options, prepare
from netdiag.capture import read
from netdiag.document import build
from netdiag.errors import InputUnreadable
from tests.fakes import packets as p
from tests.unit.capture.capturing import codes, connection, table

TALKS = [
    p.Talk(client=("10.0.0.1", 40000 + number), server=("10.0.0.2", 80), at=number / 3).open().ask(p.REQUEST, p.ANSWER)
    for number in range(5)
]
PACKETS = sorted((packet for talk in TALKS for packet in talk.close(after=0.4).packets), key=lambda packet: packet[0])
COLUMNS = [
    "local_port",
    "remote_ip",
    "opened_ns",
    "closed_by",
    "bytes_sent",
    "bytes_received",
    "min_rtt_ms",
    "requests",
]


def plain(found):
    """Return columns of numbers rounded to a microsecond."""
    return {name: [round(v, 3) if isinstance(v, float) else v for v in found[name]] for name in COLUMNS}


def rows(data):
    found = table(data)
    found["opened_ns"] = (found["opened_ns"] / 1e6).round(2)
    return plain(found)


@pytest.mark.parametrize(
    "form",
    [
        p.pcap(PACKETS, order=">"),
        p.pcap(PACKETS, nano=True),
        p.pcapng(PACKETS),
        p.pcapng(PACKETS, order=">"),
        gzip.compress(p.pcapng(PACKETS)),
        p.pcap([(at, bytes(14) + frame[12:]) for at, frame in PACKETS], link=113),
        p.pcap([(at, frame[14:]) for at, frame in PACKETS], link=101),
        p.pcap([(at, frame[:12] + b"\x81\x00\x00\x07" + frame[12:]) for at, frame in PACKETS]),
    ],
)
def test_every_form_of_the_same_packets_says_the_same(form):
    assert rows(form) == rows(p.pcap(PACKETS))


def test_a_pipe_is_read_as_a_file():
    assert rows(io.BytesIO(p.pcap(PACKETS))) == rows(p.pcap(PACKETS))


def test_packets_captured_at_two_interfaces_count_once():
    twice = [packet for at, frame in PACKETS for packet in ((at, frame), (at + 0.00003, frame))]
    there = p.section() + p.interface() + p.interface(101)
    there += b"".join(
        p.enhanced(round((p.START_S + at) * 1e6), frame[14:] if number % 2 else frame, owner=number % 2)
        for number, (at, frame) in enumerate(twice)
    )
    found = table(there)
    assert found["retransmits"].tolist() == [0] * 5
    assert found["bytes_received"].tolist() == [len(p.ANSWER)] * 5


def test_packets_written_out_of_turn_are_put_in_order():
    swapped = PACKETS.copy()
    near = [place for place in range(len(PACKETS) - 1) if PACKETS[place + 1][0] - PACKETS[place][0] < 0.04]
    for place in near[::2]:
        swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
    assert rows(p.pcap(swapped)) == rows(p.pcap(PACKETS))


def test_the_document_of_a_capture_has_no_invented_numbers():
    recording = read(p.pcap(PACKETS))
    document = build(recording, tables.build(recording), [])
    assert document["coverage"]["tier"] == "capture"
    assert document["exit_reason"] == "end of the capture"
    assert document["processes"] == []
    assert document["host"]["kernel"] is None
    first = document["connections"][0]
    assert first["opened"] == "2026-09-21T14:13:20.000000000Z"
    for name in ("pid", "tid", "comm", "netns", "keepalive_probes", "unread_bytes"):
        assert first[name] is None, name
    assert {"processes and threads", "when programs read what had arrived"} <= {
        row["what"] for row in document["coverage"]["unobservable"]
    }


def test_what_is_cut_is_said():
    recording = read(p.pcap(PACKETS, snap=60))
    assert any("the rest of" in row["what"] for row in recording.facts_of("coverage")[0]["unobservable"])
    assert connection(p.pcap(TALKS[0].packets, snap=60)).bytes_received == len(p.ANSWER)


def test_what_breaks_off_is_told_with_the_offset():
    data = p.pcap(PACKETS)
    recording = read(data[:-7])
    assert recording.truncated_at == len(data) - 16 - len(PACKETS[-1][1])
    assert recording.end is None
    assert tables.build(recording).truncated
    assert len(tables.build(recording).connections) == 5


def test_a_tunnel_is_noted():
    wrapped = [(at, p.ethernet(p.ip("192.0.2.1", "192.0.2.2", frame[14:], protocol=4))) for at, frame in PACKETS]
    assert rows(p.pcap(wrapped)) == rows(p.pcap(PACKETS))
    [probe] = read(p.pcap(wrapped)).facts_of("coverage")[0]["probes"]
    assert f"ipip ({len(PACKETS)} packets)" in probe["reason"]


def test_losses_that_the_file_tells_are_told():
    lost = p.block(5, struct.pack("<III", 0, 0, 0) + p.options([(5, struct.pack("<Q", 3)), (7, struct.pack("<Q", 4))]))
    [loss] = tables.build(read(p.pcapng(PACKETS) + lost)).losses
    assert (loss.seen, loss.lost) == (len(PACKETS), 7)
    assert all(loss.lost is None for loss in tables.build(read(p.pcapng(PACKETS))).losses)


def test_a_file_without_connections_is_an_answer():
    found = tables.build(read(p.pcap([])))
    assert (len(found.connections), found.span_ms) == (0, 0.0)
    assert len(tables.build(read(p.pcapng([(0, b"\0" * 60)]))).connections) == 0


def test_progress_is_told_with_the_size(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(p.pcap(PACKETS))
    told = []
    read(path, progress=lambda taken, size: told.append((taken, size)))
    assert told[-1] == (path.stat().st_size, path.stat().st_size)


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("nothing to see")
    with pytest.raises(InputUnreadable, match=r"notes\.txt.*byte 0"):
        read(path)


def test_the_same_file_gives_the_same_bytes():
    one, other = (read(p.pcap(PACKETS)) for _ in range(2))
    assert one.header == other.header
    assert one.facts == other.facts
    for name in one.layouts:
        mine, theirs = one.records(name), other.records(name)
        assert mine is not None
        assert theirs is not None
        assert mine.tobytes() == theirs.tobytes()


def test_a_client_per_call_is_found_without_processes():
    packets = []
    for number in range(6):
        talk = p.Talk(client=("10.0.0.1", 40000 + number), server=("10.0.0.2", 80), at=number * 0.3, rtt=0.02)
        talk.open().ask(p.REQUEST, p.ANSWER.replace(b"OK", b"OK")).close(after=0.1)
        packets += talk.packets
    found = codes(p.pcap(sorted(packets, key=lambda packet: packet[0])))
    assert found["reuse.client-per-call"].subject.pid is None
    assert found["reuse.client-per-call"].subject.remote == "10.0.0.2:80"


def test_two_clients_of_one_server_are_two_groups():
    """Without processes, who calls is known by the address."""
    packets = []
    for number in range(4):
        for client in ("10.0.0.1", "10.0.0.7"):
            talk = p.Talk(client=(client, 40000 + number), server=("10.0.0.2", 80), at=number * 0.3, rtt=0.02)
            packets += talk.open().ask(p.REQUEST, p.ANSWER).close(after=0.1).packets
    built = tables.build(read(p.pcap(sorted(packets, key=lambda packet: packet[0]))))
    assert [len(group.links) for group in prepare(built, Options()).groups] == [4, 4]


def test_random_bytes_in_packets_are_no_connections():
    frames = [(number / 1e3, os.urandom(60 + number)) for number in range(300)]
    built = tables.build(read(p.pcap(frames)))
    assert math.isfinite(built.span_ms)
