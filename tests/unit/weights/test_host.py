# SPDX-License-Identifier: Apache-2.0
"""What surrounds a load: each finding with its near miss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from netdiag.weights.judge import judge
from netdiag.weights.model import Residents, Thread
from tests.fakes import loads
from tests.fakes.loads import GIB, MIB, PID


def codes(thread: Thread, **more: Any) -> set[str]:
    return {one.code for one in judge(loads.case(thread, **more))}


def residents(**more: Any) -> Residents:
    return Residents(**{"pid": PID, "anonymous": GIB, "anonymous_huge": 0, "file_huge": 0, **more})


@pytest.mark.parametrize(("ms", "told"), [(600.0, True), (400.0, False), (None, False)])
def test_memory_that_had_to_be_freed_first(ms: float | None, told: bool) -> None:
    assert ("weights.reclaim-stall" in codes(loads.thread(reclaim_ms=ms))) is told


BUSY = {"fault": 300, "user": 100}


@pytest.mark.parametrize(
    ("held", "faults", "told"),
    [
        (residents(), GIB // 4096, True),
        (residents(anonymous_huge=GIB // 2), GIB // 4096, False),
        (residents(anonymous=64 * MIB), GIB // 4096, False),
        (residents(), 1_000, False),  # the memory was there before
        (residents(pid=PID + 1), GIB // 4096, False),
    ],
)
def test_large_memory_in_small_pages(held: Residents, faults: int, told: bool) -> None:
    thread = loads.thread(samples=BUSY, run_ms=9_000.0, minor_faults=faults)
    assert ("weights.no-huge-pages" in codes(thread, made_of=(held,))) is told


def test_small_pages_that_a_file_is_read_into_are_one_cause() -> None:
    thread = loads.thread(samples={"read": 300}, run_ms=9_000.0, minor_faults=GIB // 4096, read_bytes=GIB, reads=1024)
    found = codes(thread, made_of=(residents(),))
    assert "weights.destination-first-touch" in found
    assert "weights.no-huge-pages" not in found


@pytest.mark.parametrize(
    ("nodes", "node", "told"),
    [({0: GIB, 1: 2 * GIB}, 0, True), ({0: 2 * GIB, 1: GIB}, 0, False), ({0: 0, 1: 64 * MIB}, 0, False),
     ({1: GIB}, None, False), (None, None, False)],
)  # fmt: skip
def test_memory_of_another_node(nodes: dict[int, int] | None, node: int | None, told: bool) -> None:
    assert ("weights.numa-remote" in codes(loads.thread(), made_of=(residents(nodes=nodes, node=node),))) is told


@pytest.mark.parametrize(
    ("blocked", "ready", "told"),
    [(1_000.0, 10_000.0, True), (5_000.0, 10_000.0, False), (100.0, 1_000.0, False), (1_000.0, None, False)],
)
def test_a_start_of_which_weights_are_the_smaller_part(blocked: float, ready: float | None, told: bool) -> None:
    thread = loads.thread(blocked={"read": blocked}, slept_ms=9_000.0 - blocked)
    assert ("weights.startup-not-io" in codes(thread, ready_ms=ready)) is told


@pytest.mark.parametrize(
    ("course", "total", "told"),
    [
        (((GIB // 2, 4_000.0), (GIB, 8_000.0)), 8_800.0, True),
        (((GIB // 2, 4_000.0), (GIB, 8_000.0)), 16_000.0, False),  # as slow again: it was read twice
        (((GIB // 2, 4_000.0),), 8_800.0, False),  # when the first pass ended is not known
    ],
)
def test_a_volume_that_is_slow_the_first_time_only(
    course: Sequence[tuple[int, float]], total: float, told: bool
) -> None:
    asked = loads.requests(16_384, 128 * 1024, latency_ms=total, course=(*course, (2 * GIB, total)))
    file = loads.file(requests=(asked,), mount=loads.mount(), cached_after=GIB)
    found = codes(loads.thread(blocked={"read": 8_800.0}), files=[file])
    assert ("weights.lazy-volume" in found) is told
    assert ("weights.read-twice" in found) is not told
