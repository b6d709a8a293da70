# SPDX-License-Identifier: Apache-2.0
"""Loads of rows that looks at /proc left: the sum, what stays unknown, and what is said without kernel programs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from netdiag.weights.case import Case
from netdiag.weights.document import build
from netdiag.weights.identity import Identity, identity
from netdiag.weights.judge import judge
from netdiag.weights.model import Load
from netdiag.weights.procfs import Child, load_of_rows
from tests.fakes import loads
from tests.fakes.loads import GIB, MIB, NO_LIMIT

SECOND = 1_000_000_000


def thread_row(**more: Any) -> dict[str, Any]:
    return {
        "kind": "thread", "pid": 7, "tid": 7, "comm": "x", "began_ns": 0, "ended_ns": 10 * SECOND, "looks": 400,
        "off": {}, "run": SECOND, "ready": 0, "user": 0, "system": SECOND, "minor": 10, "major": 0, "rchar": 0,
        "syscr": 0, "read_bytes": 0, **more,
    }  # fmt: skip


def file_row(**more: Any) -> dict[str, Any]:
    return {
        "kind": "file", "pid": 7, "path": "/none/m.gguf", "device": 1, "inode": 2, "size": GIB, "began_ns": 0,
        "ended_ns": 10 * SECOND, "cached_first": 0, "cached_last": GIB, "evicted": 0, "mapped": False, "opened": True,
        "forward": 40, "backward": 0, "near": 40, **more,
    }  # fmt: skip


def load(*rows: dict[str, Any]) -> Load:
    return load_of_rows([*rows, {"kind": "cost", "cpu_ns": 5_000_000, "looks": 400}], 0, 10 * SECOND)


def said(made: Load) -> Identity:
    found = identity(made)
    assert found is not None
    return found


def codes(*rows: dict[str, Any]) -> set[str]:
    made = load(*rows)
    return {one.code for one in judge(Case(load=made, identity=said(made), memory=NO_LIMIT))}


def test_time_off_the_processor_goes_where_looks_found_the_thread_and_the_parts_add_up() -> None:
    found = said(load(thread_row(off={"fault": 6 * SECOND, "asleep": 2 * SECOND}, ready=SECOND)))
    assert found.ms("fault-blocked") == pytest.approx(6_000)
    assert found.ms("asleep") == pytest.approx(2_000)
    assert found.ms("system-cpu") == pytest.approx(1_000)
    assert sum(part.ms for part in found.parts) == pytest.approx(found.wall_ms)
    margins = {part.name: part.margin_ms for part in found.parts}
    assert margins["fault-blocked"]
    assert margins["waiting-for-processor"] is None


def test_what_no_look_explains_is_the_rest() -> None:
    found = said(load(thread_row()))
    assert found.ms("rest") == pytest.approx(9_000)


def test_without_schedstat_ticks_tell_the_time_on_a_processor() -> None:
    found = said(load(thread_row(run=None, ready=None, user=2 * SECOND, off={"asleep": SECOND})))
    assert found.ms("user", "system-cpu") == pytest.approx(3_000)
    assert found.ms("asleep") == pytest.approx(7_000)


@pytest.mark.parametrize(("looks", "asleep_ms"), [(1, 0), (4, 0), (5, 9_000)])
def test_few_looks_explain_nothing(looks: int, asleep_ms: int) -> None:
    found = said(load(thread_row(off={"asleep": SECOND}, looks=looks)))
    assert found.ms("asleep") == pytest.approx(asleep_ms)
    assert found.ms("rest") == pytest.approx(9_000 - asleep_ms)


def test_counts_that_proc_does_not_tell_are_unknown_in_the_document() -> None:
    made = load(thread_row(off={"read": 9 * SECOND}), file_row(cached_first=None))
    document = build(loads.builder().recording(), made, NO_LIMIT, ())
    (file,) = document["files"]
    assert document["tier"]["name"] == "procfs"
    assert document["tier"]["share_of_wall"] == 0.0005
    assert (file["faults"], file["reads"]) == ({"asked": None, "around": None}, {"bytes": None})
    assert (file["walk"]["direction"], file["walk"]["source"]) == ("forward", "memory")
    assert document["summary"]["cached_share"] is None


def test_small_reads_are_told_by_counters_and_large_ones_are_not() -> None:
    small = thread_row(rchar=400 * MIB, syscr=102_400, off={"read": SECOND})
    assert "weights.small-reads" in codes(small, file_row())
    assert "weights.small-reads" not in codes(thread_row(rchar=400 * MIB, syscr=400), file_row())


def test_faults_are_only_the_destinations_where_no_file_is_mapped() -> None:
    fresh = thread_row(rchar=GIB, syscr=1024, minor=GIB // 4096)
    assert "weights.destination-first-touch" in codes(fresh, file_row())
    assert "weights.destination-first-touch" not in codes(fresh, file_row(mapped=True))


def test_a_file_that_came_twice_is_told_by_bytes_of_the_device() -> None:
    twice = thread_row(read_bytes=2 * GIB, off={"read": 9 * SECOND})
    assert "weights.cache-thrash" in codes(twice, file_row(cached_last=GIB // 4))
    assert "weights.read-twice" in codes(twice, file_row())
    once = thread_row(read_bytes=GIB, off={"read": 9 * SECOND})
    assert not codes(once, file_row()) & {"weights.cache-thrash", "weights.read-twice"}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_the_child_sees_a_real_process() -> None:
    child = Child()
    with subprocess.Popen([sys.executable, "-c", "sum(range(4_000_000)); input()"], stdin=subprocess.PIPE) as program:
        child.watch(program.pid)
        program.communicate(b"\n")
    rows = child.stop()
    assert program.pid in {row["pid"] for row in rows if row["kind"] == "thread"}
