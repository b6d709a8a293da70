# SPDX-License-Identifier: Apache-2.0
"""What a program does itself: each sign with the near miss that must stay silent."""

from __future__ import annotations

import pytest

from netdiag.weights.model import Copies
from netdiag.weights.program import CHECKS
from tests.fakes import loads
from tests.fakes.loads import GIB, KIB, MIB


def codes(case):
    return [one.code for check in CHECKS for one in check(case)]


def expect(code):
    return [code] if code else []


def test_a_quiet_load_has_no_finding():
    assert codes(loads.case()) == []


@pytest.mark.parametrize(
    ("thread", "code"),
    [
        ({"reads": 100_000, "read_bytes": 100_000 * 8 * KIB}, "weights.small-reads"),
        ({"reads": 25_000, "read_bytes": 25_000 * 32 * KIB}, None),
        ({"reads": 1_999, "read_bytes": 1_999 * 8 * KIB, "ended_ms": 1_000.0}, None),
        ({"reads": 40_000, "read_bytes": 40_000 * 8 * KIB}, None),
    ],
)
def test_small_reads(thread, code):
    assert codes(loads.case(loads.thread(**thread), [loads.file(get_bytes=GIB)])) == expect(code)


@pytest.mark.parametrize(("faults", "told"), [(262_144, True), (100_000, False), (500_000, False)])
def test_memory_that_reading_touches_first(faults, told):
    thread = loads.thread(read_bytes=GIB, reads=1_024, minor_faults=faults)
    assert codes(loads.case(thread)) == expect("weights.destination-first-touch" if told else None)


@pytest.mark.parametrize(
    ("request_", "cached", "cause"),
    [
        ((1_024, 1 * MIB), GIB, "warm"),
        ((8_192, 128 * KIB), 0, "small"),
        ((1_024, 1 * MIB), 0, None),
        ((10, 128 * KIB), GIB, None),
    ],
)
def test_reads_past_the_page_cache(request_, cached, cause):
    count, size = request_
    file = loads.file(requests=(loads.requests(count, size, "direct"),), cached_before=cached)
    found = [one.cause for check in CHECKS for one in check(loads.case(files=[file]))]
    assert found == expect(cause)


@pytest.mark.parametrize(("layer", "code"), [("lower", "weights.overlay"), ("upper", None), (None, None)])
def test_a_file_of_an_image_layer(layer, code):
    file = loads.file(requests=(loads.requests(200, 1 * MIB),), mount=loads.mount("overlay", layer=layer))
    assert codes(loads.case(files=[file])) == expect(code)


@pytest.mark.parametrize(("second", "code"), [(GIB, "weights.rank-amplification"), (GIB // 4, None)])
def test_each_process_brings_the_whole_file(second, code):
    files = [loads.file(get_bytes=GIB), loads.file(pid=101, get_bytes=second)]
    assert codes(loads.case(files=files)) == expect(code)


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ({"cached_before": GIB, "get_bytes": GIB, "around": 50}, "weights.prefetch-wasted"),
        ({"cached_before": GIB // 2, "get_bytes": GIB, "around": 50}, None),
        ({"cached_before": GIB, "get_bytes": GIB}, None),
    ],
)
def test_reading_before_what_was_in_memory(file, code):
    assert codes(loads.case(files=[loads.file(**file)])) == expect(code)


@pytest.mark.parametrize(
    ("run_ms", "blocked", "code"),
    [(9_000.0, 0.0, "weights.deserialize-cpu"), (5_000.0, 0.0, None), (8_000.0, 1_500.0, None)],
)
def test_conversion_takes_the_time(run_ms, blocked, code):
    thread = loads.thread(run_ms=run_ms, samples={"user": 1_000}, blocked={"read": blocked})
    assert codes(loads.case(thread, [loads.file(get_bytes=GIB)])) == expect(code)


@pytest.mark.parametrize(("read", "code"), [(GIB, "weights.gds-compat"), (0, None)])
def test_direct_storage_that_goes_through_memory(read, code):
    library = loads.file(path="/usr/lib/libcufile.so.0", inode=8, format=None, size=2 * MIB)
    assert codes(loads.case(files=[loads.file(get_bytes=read), library])) == expect(code)


@pytest.mark.parametrize(
    ("left", "fetched", "code"),
    [(GIB // 4, GIB, "weights.evicted"), (GIB // 2, GIB, None), (None, GIB, None), (GIB // 4, GIB // 4, None)],
)
def test_what_left_memory_again(left, fetched, code):
    file = loads.file(cached_after=left, requests=(loads.requests(fetched // MIB, MIB),))
    assert codes(loads.case(files=[file])) == expect(code)


def copies(**more):
    plain = {
        "count": 1_000,
        "bytes": GIB,
        "took_ms": 900.0,
        "small": 0,
        "from_files": 0,
        "from_pinned": GIB,
        "from_pageable": 0,
    }
    return Copies(**{**plain, **more})


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, None),
        ({"from_files": GIB}, "weights.pageable-copies"),
        ({"from_files": GIB // 2}, None),
        ({"small": 900}, "weights.tiny-copies"),
        ({"small": 99, "count": 99}, None),
    ],
)
def test_copies_to_a_gpu(more, code):
    assert codes(loads.case(copies=copies(**more))) == expect(code)


@pytest.mark.parametrize(("kernel_ms", "code"), [(300.0, "observer.cost"), (150.0, None), (None, None)])
def test_what_looking_costs_is_told(kernel_ms, code):
    assert codes(loads.case(kernel_ms=kernel_ms)) == expect(code)
