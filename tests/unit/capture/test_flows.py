# SPDX-License-Identifier: Apache-2.0
"""Segments find their connections: both directions one, other ends another, a new SYN a new one."""

from __future__ import annotations

import random

import numpy as np

from netdiag import tables
from netdiag.capture.container import Notes, batches
from netdiag.capture.flows import Flows
from netdiag.capture.layers import Layers
from netdiag.capture.source import open_source
from tests.fakes import packets as p
from tests.unit.capture.capturing import read, table


def sort(packets, flows=None):
    flows = flows or Flows()
    flows.room(1 << 24)
    [batch] = batches(open_source(p.pcap(packets)), Notes())
    tcp, _ = Layers().split(batch, batch.time_ns)
    return flows, flows.sort(tcp)


def many(count, seed=1):
    draw = random.Random(seed)
    found = []
    for number in range(count):
        talk = p.Talk(
            client=(f"10.{draw.randrange(3)}.0.{draw.randrange(1, 9)}", 20_000 + number),
            server=("10.0.0.2" if number % 3 else "2001:db8::1", 443),
            at=draw.random(),
        )
        if number % 3 == 0:
            talk.client = ("2001:db8::7", 20_000 + number)
        found.append(talk.open().ask(b"question", b"answer").close())
    return found


def test_each_connection_is_one_and_in_order_of_time():
    talks = many(200)
    packets = sorted((packet for talk in talks for packet in talk.packets), key=lambda packet: packet[0])
    flows, s = sort(packets)
    assert len(flows.all) == 200
    assert np.bincount(s.flow).tolist() == [len(talks[0].packets)] * 200
    assert all((np.diff(s.time[s.run == run]) >= 0).all() for run in range(200))
    ends = {frozenset((flow.ends[0][1], flow.ends[1][1])) for flow in flows.all}
    assert ends == {frozenset((talk.client[1], 443)) for talk in talks}


def test_connections_are_numbered_as_the_file_brings_them():
    talks = many(50)
    packets = sorted((packet for talk in talks for packet in talk.packets), key=lambda packet: packet[0])
    flows, _ = sort(packets)
    assert [flow.first_ns for flow in flows.all] == sorted(flow.first_ns for flow in flows.all)


def test_equal_marks_do_not_mix_connections(monkeypatch):
    monkeypatch.setattr(
        "netdiag.capture.flows._mix", lambda ends, ports: (ports % 3).astype(np.uint64) + 0 * ends[:, 0]
    )
    talks = many(60)
    packets = sorted((packet for talk in talks for packet in talk.packets), key=lambda packet: packet[0])
    flows, s = sort(packets)
    assert len(flows.all) == 60
    assert set(np.bincount(s.flow).tolist()) == {len(talks[0].packets)}


def test_a_syn_sent_again_is_the_same_connection_and_another_number_a_new_one():
    talk = p.Talk()
    for seq in (1000, 1000, 5000, 5000, 9000):
        talk.say(True, flags=p.SYN, seq=seq, after=1)
    flows, s = sort(talk.packets)
    assert np.bincount(s.flow).tolist() == [2, 2, 1]
    assert [flow.replaced for flow in flows.all] == [True, True, False]


def test_connections_go_on_in_the_next_batch_and_the_table_grows():
    talks = many(3000)
    packets = sorted((packet for talk in talks for packet in talk.packets), key=lambda packet: packet[0])
    half = len(packets) // 2
    flows, _ = sort(packets[:half])
    flows, _ = sort(packets[half:], flows)
    assert len(flows.all) == 3000
    assert len(flows.base) >= 3000


def flood(count, *, each=lambda number: p.tcp(number % 60_000 + 1024, 443, number * 7919, 0, p.SYN)):
    """Return frames of a flood: each begins a connection of its own."""
    for number in range(count):
        source = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        yield number / 1e5, p.ethernet(p.ip(source, "192.168.0.1", each(number)))


def test_a_flood_of_connections_is_bounded_and_said():
    talk = p.http()
    first = len(talk.packets)
    packets = [*talk.packets[: first // 2], *((0.02 + at, frame) for at, frame in flood(20_000))]
    packets += [(1.0 + at, frame) for at, frame in talk.packets[first // 2 :]]
    found = read(p.pcap(packets))
    built = tables.build(found)
    assert 2048 < len(built.connections) < 4000
    # what was followed before is followed to its end
    [row] = built.connections[built.connections["remote_port"] == 80].itertuples()
    assert (row.requests, row.closed_by) == (1, "local")
    [loss] = built.losses
    assert loss.lost == 20_000 - (len(built.connections) - 1)
    assert loss.seen + loss.lost == len(packets)
    [coverage] = found.facts_of("coverage")
    assert any("too many connections" in entry["why"] for entry in coverage["unobservable"])


def test_a_flood_on_the_same_two_ends_is_bounded_too():
    file = p.pcap(
        (number / 1e5, p.ethernet(p.ip("10.0.0.1", "10.0.0.2", p.tcp(40000, 443, number * 7919, 0, p.SYN))))
        for number in range(9_000)
    )
    assert len(table(file)) <= 2048 + len(file) // 1280
