# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from netdiag.route.hops import Balance, build, is_target
from netdiag.route.model import Kind, Protocol, Quote
from tests.fakes.routes import IP, probe, reply, trace, wrap


def test_silent_hops_stay_in_the_table():
    path = build(trace([("198.18.0.1", 1.0), None, (IP, 9.0)]))
    assert [[one.ip for one in hop.responders] for hop in path.hops] == [["198.18.0.1"], [], [IP]]
    assert path.reached
    assert path.hops[-1].target


def test_an_equal_address_is_not_the_target():
    path = build(trace([("198.18.0.1", 1.0), (IP, 2.0), ("198.18.0.9", 5.0), (IP, 9.0)]))
    assert [hop.target for hop in path.hops] == [False, False, False, True]


def test_an_unreached_target_is_no_hop():
    path = build(trace([("198.18.0.1", 1.0), None, None], reached=False))
    assert (len(path.hops), path.reached) == (1, False)
    assert build(trace([None, None], reached=False)).hops == ()


def test_warm_up_probes_count_for_nothing():
    cold = replace(probe(1, reply("198.18.0.9", 900.0)), warm_up=True)
    path = build(wrap([cold, probe(1, reply(IP, 2.0, Kind.SYN_ACK), number=1)]))
    assert path.hops[0].min_ms == 2.0
    assert path.hops[0].probes == 1


def flows(*met, single_flow=True):
    """Return the balance of a hop that (flow, address) pairs met, in order."""
    probes = [probe(1, reply(ip, 1.0), flow=flow, number=at, sent_ns=at) for at, (flow, ip) in enumerate(met)]
    return build(wrap(probes, reached=False, single_flow=single_flow)).hops[0].balance


def test_kinds_of_balancing():
    assert flows((0, "a"), (0, "a"), (1, "b"), (1, "b")) is Balance.FLOW
    assert flows((0, "a"), (0, "b"), (0, "a"), (0, "b")) is Balance.PACKET
    assert flows((0, "a"), (0, "a"), (0, "b"), (0, "b")) is Balance.CHANGED
    assert flows((0, "a"), (0, "b"), single_flow=False) is Balance.MIXED
    assert flows((0, "a"), (0, "a")) is None


def test_limits_are_told_from_silence():
    probes = [probe(1, reply("198.18.0.1", 1.0) if at == 0 else None, number=at, sent_ns=at) for at in range(3)]
    probes += [probe(2, reply(IP, 4.0, Kind.SYN_ACK), number=at, sent_ns=10 + at) for at in range(3)]
    first, last = build(wrap(probes)).hops
    assert (first.limited, last.limited) == (True, False)


def test_in_a_tunnel_only_the_last_hop_shows_its_own_time():
    hops = [(f"198.18.0.{at}", 82.0) for at in range(1, 5)]
    path = build(trace([*hops, (IP, 90.0)], labelled=(2, 3, 4)))
    assert [hop.tunnel for hop in path.hops] == [False, True, True, False, False]
    assert any("MPLS" in note for note in path.notes)


def test_what_a_reader_has_to_know():
    assert "the first hop alone" in build(trace([("198.18.0.1", 45.0), (IP, 60.0)])).notes[0]
    assert "proxy" in build(trace([(IP, 0.4)])).notes[0]
    assert "carrier" in build(trace([("100.64.0.1", 3.0), (IP, 9.0)])).notes[0]
    quoted = replace(reply("198.18.0.1", 1.0), quote=Quote(changed=("source-ip",)))
    assert "NAT" in build(wrap([probe(1, quoted)], reached=False)).notes[0]


def test_a_closed_port_is_the_targets_answer_to_udp_alone():
    closed = reply(IP, 1.0, Kind.PORT_UNREACHABLE)
    assert is_target(replace(trace([]), protocol=Protocol.UDP), closed)
    assert not is_target(trace([]), closed)
    assert not is_target(replace(trace([]), protocol=Protocol.UDP), reply("198.18.0.1", 1.0, Kind.PORT_UNREACHABLE))


def test_who_refuses_is_named_once_with_its_words():
    no = replace(reply("198.18.0.9", 9.0, Kind.UNREACHABLE), code=13)
    path = build(wrap([probe(ttl, no, number=at) for at in range(3) for ttl in (3, 4, 64)], reached=False))
    (note,) = [note for note in path.notes if "refuses" in note]
    assert note.startswith("198.18.0.9 refuses it: forbidden (ICMP code 13)")
    strange = replace(no, code=None)
    assert any("unreachable" in note for note in build(wrap([probe(3, strange)], reached=False)).notes)
    assert not any("refuses" in note for note in build(trace([("198.18.0.1", 1.0), (IP, 9.0)])).notes)


def test_an_address_at_two_distances_is_told():
    twice = build(trace([("198.18.0.1", 1.0), ("198.18.0.5", 4.0), ("198.18.0.5", 4.1), (IP, 9.0)]))
    assert any("198.18.0.5 answers at hops 2, 3" in note for note in twice.notes)
    once = build(trace([("198.18.0.1", 1.0), ("198.18.0.5", 4.0), ("198.18.0.9", 4.1), (IP, 9.0)]))
    assert not any("answers at hops" in note for note in once.notes)
