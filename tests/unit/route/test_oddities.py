# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.model import Greeting, Kind, Odd, OddKind, OddProbe
from netdiag.route.oddities import read, sentences
from netdiag.route.store import plain, restore

IP = "203.0.113.10"
SIZES = (1500, 1492, 1480, 1460, 1440, 1420, 1400, 1380, 1360, 1280)


def syn(kind=OddKind.PLAIN, *, size=44, ttl=64, reply=Kind.SYN_ACK, **more):
    return OddProbe(kind=kind, ttl=ttl, size=size, sent_ns=0, reply=reply, ip=IP if reply else None, **more)


def sizes(limit, *, times=2, over=None):
    return [syn(OddKind.SIZE, size=size, reply=Kind.SYN_ACK if size <= limit else over) for size in SIZES] * times


def hello(mss, size, received, *, acked=True, mtu=1500):
    return Greeting(
        mss=mss, size=size, connected=True, acked=acked, received=received, mtu=mtu, mtu_before=1500
    )  # fmt: skip


def hellos(*, small=900, large=900, slow_small=900, slow_large=900, acked=True):
    rows = ((None, 517, small), (None, 1800, large), (1180, 517, slow_small), (1180, 1800, slow_large))
    return tuple(hello(mss, size, got, acked=acked or bool(got)) for mss, size, got in rows for _ in range(3))


def of(probes=(), greetings=()):
    return read(Odd(ip=IP, port=443, probes=tuple(probes), greetings=tuple(greetings)))


PLAIN = [syn()] * 3


def test_nothing_asked_tells_nothing():
    found = of()
    assert (found.ecn, found.data, found.path_mtu, found.black_hole) == (None, None, None, None)
    assert sentences(found) == []


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([syn(OddKind.ECN, ece=True)] * 3, "negotiated"),
        ([syn(OddKind.ECN, ece=False)] * 3, "not taken"),
        ([syn(OddKind.ECN, reply=None)] * 3, "blocked"),
        ([syn(OddKind.ECN, reply=None), syn(OddKind.ECN, ece=True)], "negotiated"),
        ([syn(OddKind.ECN, reply=None)], None),
        ([syn(OddKind.ECN, reply=Kind.RST)] * 3, None),
        ([], None),
    ],
)
def test_ecn(answers, says):
    assert of([*PLAIN, *answers]).ecn == says


def test_a_target_that_answers_nothing_blocks_nothing():
    silent = [syn(kind, reply=None) for kind in (OddKind.PLAIN, OddKind.ECN, OddKind.DATA)] * 3
    found = of(silent)
    assert (found.ecn, found.data) == (None, None)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([syn(OddKind.DATA, acked=32)] * 3, "taken"),
        ([syn(OddKind.DATA, acked=0)] * 3, "not taken"),
        ([syn(OddKind.DATA, reply=None)] * 3, "blocked"),
    ],
)
def test_data_in_a_syn(answers, says):
    assert of([*PLAIN, *answers]).data == says


def marks(*seen):
    return [syn(OddKind.ECT, ttl=ttl, reply=Kind.TTL_EXCEEDED, tos=tos) for ttl, tos in enumerate(seen, 1)]


@pytest.mark.parametrize(
    ("seen", "gone", "kept"),
    [((2, 2, 2), None, 3), ((2, 2, 0, 0), 3, 2), ((0, 0), 1, 0), ((2, 0, 2, 2), None, 3), ((), None, 0)],
)
def test_where_marks_are_removed(seen, gone, kept):
    found = of(marks(*seen))
    assert (found.bleached_ttl, found.marked) == (gone, kept)


def test_sizes_that_all_pass_are_no_hole():
    found = of([*PLAIN, *sizes(1500)])
    assert found.path_mtu == 1500
    assert found.black_hole is None
    assert "packet size: 1500 bytes pass" in sentences(found)


def test_sizes_that_vanish_above_a_limit_are_one():
    located = [
        syn(OddKind.SIZE, size=size, ttl=ttl, reply=Kind.TTL_EXCEEDED)
        for size, ttls in ((1400, (1, 2, 3, 4)), (1404, (1, 2)))
        for ttl in ttls
    ]
    hole = of([*PLAIN, *sizes(1400), syn(OddKind.SIZE, size=1404, reply=None), *located]).black_hole
    assert (hole.way, hole.passed, hole.lost, hole.last_ttl) == ("there", 1400, 1404, 2)
    assert hole.confidence >= 0.9


def test_a_router_that_says_so_makes_it_healthy():
    told = [syn(OddKind.SIZE, size=size, reply=Kind.TOO_BIG, mtu=1400) for size in SIZES[:6]]
    found = of([*PLAIN, *sizes(1400)[6:10], *told])
    assert found.black_hole is None
    assert found.told_mtu == 1400
    assert any("as it should" in text for text in sentences(found))


def test_one_large_packet_that_is_answered_refutes_it():
    assert of([*PLAIN, *sizes(1400), syn(OddKind.SIZE, size=1500)]).black_hole is None


def test_few_silences_prove_nothing():
    assert of([*PLAIN, *sizes(1492, times=1)]).black_hole is None


def test_sizes_without_any_answer_prove_nothing():
    assert of([*PLAIN, *sizes(0)]).black_hole is None


def test_hellos_in_full_packets_that_vanish():
    hole = of(greetings=hellos(large=0, acked=False)).black_hole
    assert (hole.way, hole.silent, hole.sent) == ("there", 3, 3)
    assert 0.6 <= hole.confidence < 0.9


def test_answers_in_full_packets_that_vanish():
    assert of(greetings=hellos(small=0, large=0)).black_hole.way == "back"


def test_both_together_are_surer():
    probes = [*PLAIN, *sizes(1400)]
    assert of(probes, hellos(large=0, acked=False)).black_hole.confidence > of(probes).black_hole.confidence


@pytest.mark.parametrize(
    "greetings",
    [
        hellos(),
        hellos(small=0, large=0, slow_small=0, slow_large=0),
        hellos(large=0, slow_large=0),
        (*hellos()[:3], hello(None, 1800, 0), hello(None, 1800, 0), hello(None, 1800, 9), *hellos()[6:]),
        hellos(large=0)[:4] + hellos()[6:],
        (*hellos(large=0)[:-1], hello(1180, 1800, 0)),
    ],
    ids=["healthy", "dead", "split", "one passed", "one tried", "small lost too"],
)
def test_what_is_no_black_hole(greetings):
    assert of(greetings=greetings).black_hole is None


def test_a_server_that_takes_no_split_hello_is_told_from_a_black_hole():
    found = of(greetings=hellos(large=0, slow_large=0))
    assert found.split_hello is False
    assert any("not answered, whatever their size" in text for text in sentences(found))
    assert of(greetings=hellos()).split_hello is True


def test_a_server_that_answers_no_hello_is_dead_and_size_is_not_the_reason():
    found = of(greetings=hellos(small=0, large=0, slow_small=0, slow_large=0))
    assert found.dead
    assert found.split_hello is None


def test_stored_and_read_again_it_says_the_same():
    odd = Odd(ip=IP, port=443, probes=(*PLAIN, *sizes(1400)), greetings=hellos(large=0, acked=False))
    assert read(restore(Odd, plain(odd))) == read(odd)


PROBES = st.builds(
    OddProbe,
    kind=st.sampled_from(OddKind),
    ttl=st.integers(1, 64),
    size=st.integers(40, 1500),
    sent_ns=st.just(0),
    reply=st.none() | st.sampled_from(Kind),
    tos=st.none() | st.integers(0, 255),
    mtu=st.none() | st.integers(0, 1500),
    ece=st.none() | st.booleans(),
    acked=st.none() | st.integers(0, 32),
)


@given(st.lists(PROBES, max_size=60))
def test_any_answers_give_sentences_and_no_hole_where_a_larger_one_passed(probes):
    found = of(probes)
    assert all(isinstance(text, str) for text in sentences(found))
    far = [one for one in probes if one.kind is OddKind.SIZE and one.ttl == 64]
    if found.black_hole is not None:
        assert all(one.reply is None for one in far if one.size >= found.black_hole.lost)
