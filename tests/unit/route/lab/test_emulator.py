# SPDX-License-Identifier: Apache-2.0
"""What the emulated network does with a packet, without devices and without a clock."""

from __future__ import annotations

import struct

import pytest

from netdiag.route.engine import packet, parse
from netdiag.route.engine.packet import FlowKey
from netdiag.route.lab.emulator import CLIENT, SERVER, Emulator, Packet, flow_of
from netdiag.route.lab.topology import read
from netdiag.route.model import Kind

CLIENT_IPS, TARGETS = ("198.18.255.2", "2001:db8:ffff::2"), ("203.0.113.10", "2001:db8:1::10")


def network(*hops, **way):
    ways = [{"ms": 20.0, "hops": list(hops), **way}]
    return Emulator(read({"title": "t", "sites": [{"ips": list(TARGETS), "ways": ways}]}), seed=5)


def key(version=4, port=40_000):
    at = 0 if version == 4 else 1
    return FlowKey(
        source=packet.packed(CLIENT_IPS[at]),
        destination=packet.packed(TARGETS[at]),
        source_port=port,
        port=443,
        label=7,
    )


def hop(number=1, **settings):
    return {"ip": f"198.18.0.{number}", "ms": 4.0 * number, **settings}


def icmp_of(delivery, version=4):
    """Return source and error of a delivered packet, its checksum verified in both versions."""
    data = delivery.packet
    if version == 4:
        stripped = parse.strip_ipv4(data)
        assert stripped is not None
        return stripped[1], parse.icmp(4, stripped[2])
    pseudo = data[8:40] + struct.pack("!II", len(data) - 40, 58)
    assert packet.checksum(pseudo + data[40:]) == 0
    return None, parse.icmp(6, data[40:])


@pytest.mark.parametrize("version", [4, 6])
def test_the_router_where_the_ttl_ends_answers_after_its_round_trip(version):
    emulator = network(hop(1), hop(2), hop(3))
    (answer,) = emulator.accept(CLIENT, packet.udp(key(version), 2, 9), 0)
    source, error = icmp_of(answer, version)
    assert (answer.delay_ns, answer.side) == (8_000_000, CLIENT)
    assert error is not None
    assert (error.kind, error.quoted.ttl, error.quoted.destination) == (Kind.TTL_EXCEEDED, 1, TARGETS[version == 6])
    assert source in (None, "198.18.0.2")


def test_what_gets_through_comes_out_half_the_time_later_and_older():
    emulator = network(hop(1), hop(2), back_hops=7)
    (there,) = emulator.accept(CLIENT, packet.syn(key(), 64, 1, 2), 0)
    assert (there.side, there.delay_ns, there.packet[8]) == (SERVER, 10_000_000, 62)
    assert packet.checksum(there.packet[:20]) == 0
    answer = there.packet[:12] + there.packet[16:20] + there.packet[12:16] + there.packet[20:]
    (back,) = emulator.accept(SERVER, answer, 0)
    assert (back.side, back.packet[8]) == (CLIENT, 55)


@pytest.mark.parametrize("settings", [{"silent": True}, {"loss": 1.0}, {"drop": 1.0}])
def test_a_router_that_does_not_answer(settings):
    assert network(hop(1, **settings)).accept(CLIENT, packet.udp(key(), 1, 9), 0) == []


def test_silence_is_not_loss_but_dropping_is():
    assert network(hop(1, silent=True, loss=1.0)).accept(CLIENT, packet.udp(key(), 9, 9), 0)
    assert not network(hop(1, drop=1.0)).accept(CLIENT, packet.udp(key(), 9, 9), 0)
    assert not network(hop(1), loss=1.0).accept(CLIENT, packet.udp(key(), 9, 9), 0)


def test_a_limit_gives_answers_again_as_time_passes():
    emulator = network(hop(1, limit_per_s=1.0, limit_burst=2))
    probe = packet.udp(key(), 1, 9)
    answers = [len(emulator.accept(CLIENT, probe, at)) for at in (0, 0, 0, 500_000_000, 1_100_000_000, 1_200_000_000)]
    assert answers == [1, 1, 0, 0, 1, 0]


def test_balancing_by_flow_is_constant_and_by_packet_is_not():
    def met(balance, ports):
        emulator = network(hop(1, balance=balance, also=[{"ip": "198.18.0.9"}]))
        sources = [icmp_of(emulator.accept(CLIENT, packet.udp(key(port=port), 1, 9), 0)[0])[0] for port in ports]
        return set(sources)

    assert len(met("flow", [40_000] * 20)) == 1
    assert len(met("flow", range(40_000, 40_020))) == 2
    assert len(met("packet", [40_000] * 20)) == 2


def test_ways_take_their_share_and_both_directions_agree():
    table = {
        "title": "t",
        "sites": [{"ips": [TARGETS[0]], "ways": [{"ms": 1.0, "hops": [], "share": 3.0}, {"ms": 2.0, "hops": []}]}],
    }
    emulator = Emulator(read(table))
    taken = [
        emulator.way(emulator.topology.sites[0], flow_of("tcp", (CLIENT_IPS[0], port), (TARGETS[0], 443))).ms
        for port in range(30_000, 34_000)
    ]
    assert taken.count(1.0) / len(taken) == pytest.approx(0.75, abs=0.05)
    there, back = ((CLIENT_IPS[0], 40_000), (TARGETS[0], 443)), ((TARGETS[0], 443), (CLIENT_IPS[0], 40_000))
    assert flow_of("tcp", *there) == flow_of("tcp", *back)
    sent = Packet.read(packet.syn(key(), 9, 1, 2))
    assert sent is not None
    assert sent.flow == flow_of("tcp", *there)


def test_tunnels_show_their_labels():
    (answer,) = network(hop(1, mpls=[24_001, 9])).accept(CLIENT, packet.udp(key(), 1, 9), 0)
    _, error = icmp_of(answer)
    assert error is not None
    assert [(label.value, label.bottom, label.ttl) for label in error.labels] == [(24_001, False, 1), (9, True, 254)]


def test_a_translator_changes_what_routers_behind_it_quote():
    emulator = network(hop(1), hop(2, nat="address"), hop(3))
    quotes = []
    for ttl in (1, 3):
        (answer,) = emulator.accept(CLIENT, packet.udp(key(), ttl, 9), 0)
        _, error = icmp_of(answer)
        assert error is not None
        quotes.append(error.quoted)
    assert [quote.source for quote in quotes] == ["198.18.255.2", "100.64.0.1"]
    assert quotes[0].transport[6:8] != quotes[1].transport[6:8]


@pytest.mark.parametrize(("refuse", "answers"), [(None, 0), (13, 1)])
def test_a_filter_swallows_or_refuses(refuse, answers):
    settings = {"filters": ["udp"]} | ({} if refuse is None else {"refuse": refuse})
    found = network(hop(1, **settings)).accept(CLIENT, packet.udp(key(), 9, 9), 0)
    assert len(found) == answers
    if found:
        _, error = icmp_of(found[0])
        assert error is not None
        assert (error.kind, error.code) == (Kind.UNREACHABLE, 13)


@pytest.mark.parametrize("version", [4, 6])
def test_a_narrow_link_says_what_fits(version):
    big = packet.udp(key(version), 9, 9) + bytes(1400)
    (answer,) = network(hop(1, mtu=1300)).accept(CLIENT, big, 0)
    _, error = icmp_of(answer, version)
    assert error is not None
    assert (error.kind, error.mtu) == (Kind.TOO_BIG, 1300)


@pytest.mark.parametrize("trick", ["wrong-quote", "huge-extension", "truncated", "wrong-checksum", "duplicate"])
def test_hostile_routers_send_something_beside_the_truth(trick):
    emulator = network(hop(1, hostile=[trick]))
    answers = emulator.accept(CLIENT, packet.udp(key(), 1, 9), 0)
    assert len(answers) == 2
    honest = network(hop(1)).accept(CLIENT, packet.udp(key(), 1, 9), 0)[0].packet
    assert answers[0].packet == honest
    assert (answers[1].packet == honest) is (trick == "duplicate")


@pytest.mark.parametrize("data", [b"", b"\x45", b"\x60" + bytes(20), b"\x10" * 60])
def test_what_is_no_packet_goes_nowhere(data):
    assert network(hop(1)).accept(CLIENT, data, 0) == []


def test_strange_targets_go_nowhere():
    elsewhere = FlowKey(
        source=packet.packed(CLIENT_IPS[0]), destination=packet.packed("192.0.2.1"), source_port=1, port=2
    )
    assert network(hop(1)).accept(CLIENT, packet.udp(elsewhere, 9, 9), 0) == []


def test_an_answer_whose_ttl_does_not_last_is_lost():
    emulator = network(hop(1), hop(2))
    (there,) = emulator.accept(CLIENT, packet.syn(key(), 64, 1, 2), 0)
    answer = bytearray(there.packet[:12] + there.packet[16:20] + there.packet[12:16] + there.packet[20:])
    answer[8] = 2
    assert emulator.accept(SERVER, bytes(answer), 0) == []
