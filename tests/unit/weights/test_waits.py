# SPDX-License-Identifier: Apache-2.0
"""One cause for the time that was waited: each with the near miss that must stay silent or become another cause."""

from __future__ import annotations

import pytest

from netdiag.weights.surroundings import Memory
from netdiag.weights.waits import hidden, inputs
from tests.fakes import loads
from tests.fakes.loads import GIB, KIB, MIB

WAITING = {"fault": 8_000.0}


def codes(file, blocked=None, memory=loads.NO_LIMIT):
    return [one.code for one in inputs(loads.case(loads.thread(blocked=blocked or WAITING), [file], memory))]


def asked(size, total=GIB // 2, **more):
    return (loads.requests(total // size, size, **more),)


BACKWARD = {"backward": 200, "forward": 10, "near": 200}
RANDOM = {"forward": 100, "backward": 100, "near": 20, "faults": 1_000}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ({"requests": asked(4 * KIB), "faults": 200_000}, "weights.readahead-off"),
        ({"requests": asked(4 * KIB), "faults": 200_000, "readahead_ahead": 100_000}, None),
        ({"requests": asked(64 * KIB), **BACKWARD}, "weights.backward-walk"),
        ({"requests": asked(64 * KIB), **BACKWARD, "readahead_ahead": 8_000}, None),
        ({"requests": asked(64 * KIB, source="fuse")}, "weights.network-filesystem"),
        ({"requests": asked(64 * KIB), "mount": loads.mount("nfs4")}, "weights.network-filesystem"),
        ({"requests": asked(64 * KIB), "mount": loads.mount("ext4", readahead_bytes=8 * MIB)}, None),
        ({"requests": asked(1 * MIB, source="fuse")}, None),
        ({"requests": asked(128 * KIB), **RANDOM}, "weights.random-amplification"),
        ({"requests": asked(128 * KIB), **RANDOM, "faults": 100_000}, None),
        ({"requests": asked(64 * KIB), "thread_changes": 400, "faults": 500}, "weights.shared-descriptor"),
        ({"requests": asked(64 * KIB), "thread_changes": 63, "faults": 70}, None),
        ({"requests": asked(128 * KIB), "mount": loads.mount()}, "weights.readahead-small"),
        ({"requests": asked(1 * MIB), "mount": loads.mount()}, None),
        ({"requests": asked(128 * KIB, 3 * MIB), "mount": loads.mount()}, None),
        ({}, None),
    ],
)
def test_a_cause_and_its_near_miss(file, expected):
    assert codes(loads.file(**file)) == ([expected] if expected else [])


def test_who_hardly_waited_has_no_cause_in_small_requests():
    file = loads.file(requests=asked(128 * KIB), mount=loads.mount())
    assert codes(file, blocked={"fault": 2_000.0}) == []


TWICE = {"requests": asked(128 * KIB, 2 * GIB)}
TIGHT = Memory(total=64 * GIB, available=GIB, limit=GIB // 2)


@pytest.mark.parametrize(
    ("file", "memory", "expected"),
    [
        ({"cached_after": GIB}, loads.NO_LIMIT, "weights.read-twice"),
        ({"cached_after": GIB}, TIGHT, "weights.read-twice"),
        ({"cached_after": GIB // 2}, loads.NO_LIMIT, "weights.cache-thrash"),
        ({"cached_after": GIB // 2}, TIGHT, "weights.memory-limit"),
        ({"evicted": GIB // 10}, loads.NO_LIMIT, "weights.cache-thrash"),
    ],
)
def test_what_was_fetched_twice(file, memory, expected):
    assert codes(loads.file(**TWICE, **file), memory=memory) == [expected]


@pytest.mark.parametrize(("known", "confidence"), [({"cached_after": GIB}, 0.8), ({"evicted": 0}, 0.8), ({}, 0.6)])
def test_where_nothing_tells_that_it_stayed_in_memory_it_is_less_sure(known, confidence):
    (found,) = inputs(loads.case(loads.thread(blocked=WAITING), [loads.file(**TWICE, **known)]))
    assert (found.code, found.confidence) == ("weights.read-twice", confidence)


def test_the_second_fetch_alone_is_the_cost():
    (found,) = inputs(loads.case(loads.thread(blocked=WAITING), [loads.file(**TWICE, cached_after=GIB)]))
    assert found.cost_ms == pytest.approx(4_000.0)


def test_each_cause_is_told_once_and_only_for_own_files():
    one = {"requests": asked(64 * KIB), **BACKWARD}
    files = [
        loads.file(**one),
        loads.file(inode=8, **one),
        loads.file(inode=9, pid=5, requests=asked(4 * KIB), faults=200_000),
    ]
    found = list(inputs(loads.case(loads.thread(blocked=WAITING), files)))
    assert [finding.code for finding in found] == ["weights.backward-walk"]


@pytest.mark.parametrize(
    ("thread", "told"),
    [
        ({"waits_fault": 500, "major_faults": 2}, True),
        ({"waits_fault": 500, "major_faults": 10}, False),
        ({"waits_fault": 9, "major_faults": 2}, False),
        ({"waits_fault": 500, "major_faults": 2, "blocked": {"fault": 2_900.0}}, False),
    ],
)
def test_waiting_that_major_faults_do_not_show(thread, told):
    found = [one.code for one in hidden(loads.case(loads.thread(**{"blocked": WAITING, **thread})))]
    assert found == (["weights.hidden-io-wait"] if told else [])
