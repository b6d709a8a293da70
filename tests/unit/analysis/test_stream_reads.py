# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag import testing


def crumbs(calls, *, reads, run_share, streams=4):
    row = calls.connection()
    for index in range(streams):
        calls.stream(row, index * 2000.0)
    for burst in calls.rows["bursts"]:
        burst["calls"] = float(reads)
    calls.rows["scheduling"] += [testing.look(at * 1000.0, run_ms=run_share * 1000 * at) for at in range(12)]


def test_streams_read_in_crumbs(calls):
    crumbs(calls, reads=9, run_share=0.4)
    finding = calls.only("stream.tiny-reads")
    assert finding.learned is not None
    assert (finding.learned.value, finding.count) == (9, 4)


def test_what_they_cost_is_how_long_data_lay_there_and_no_second_warning(calls):
    crumbs(calls, reads=9, run_share=0.9)
    for request in calls.rows["requests"]:
        request["reader_lag_ms"] = 350.0
    for burst in calls.rows["bursts"][5::10]:
        burst |= {"began_ns": burst["began_ns"] + 350e6, "ended_ns": burst["ended_ns"] + 350e6}
    finding = calls.only("stream.tiny-reads")
    assert finding.cost_ms == pytest.approx(4 * 350)
    assert "stream.reader-stall" in {line.id for line in finding.evidence}


@pytest.mark.parametrize(
    "other",
    [{"reads": 2, "run_share": 0.4}, {"reads": 9, "run_share": 0.02}, {"reads": 9, "run_share": 0.4, "streams": 2}],
)
def test_two_reads_a_record_and_idle_programs_are_healthy(calls, other):
    crumbs(calls, **other)
    assert calls.codes() == []


def large(calls, *, size, took, streams=3):
    """The first record of each stream begins at its first byte and is whole `took` ms later."""
    for index in range(streams):
        at = index * 5000.0
        row = calls.connection()
        calls.stream(row, at, [20.0] * 9, exact=False, sizes=[size] + [120] * 9)
        calls.rows["bursts"] = [burst for burst in calls.rows["bursts"] if burst["connection"] != row]
        calls.rows["bursts"].append(testing.burst(row, "receive", at + 100 + took, size + 5))
        for step in range(9):
            calls.rows["bursts"].append(testing.burst(row, "receive", at + 100 + took + 20 * (step + 1), 125))


def test_a_head_in_a_record_of_its_own_does_not_hide_the_large_one(calls):
    large(calls, size=16_401, took=130.0)
    for index in range(3):
        calls.rows["records"].insert(12 * index, testing.record(index, "receive", index * 5000.0 + 100, 200))
        calls.rows["bursts"].append(testing.burst(index, "receive", index * 5000.0 + 100, 205))
    assert calls.codes() == ["stream.large-record"]


def test_a_record_that_its_program_read_late_had_come_at_once(calls):
    large(calls, size=16_401, took=130.0)
    for burst in calls.rows["bursts"]:
        if burst["bytes"] > 16_000:
            burst |= {"max_lag_ms": 125.0, "arrived_ns": burst["began_ns"] - 125e6}
    assert "stream.large-record" not in calls.codes()


def test_a_first_record_that_takes_long_to_be_whole(calls):
    large(calls, size=16_401, took=130.0)
    finding = calls.only("stream.large-record")
    assert finding.learned is not None
    assert (finding.learned.value, finding.count) == (16_406, 3)
    assert finding.cost_ms == pytest.approx(390)


@pytest.mark.parametrize(
    "other",
    [{"size": 16_401, "took": 5.0}, {"size": 4000, "took": 130.0}, {"size": 16_401, "took": 130.0, "streams": 1}],
)
def test_small_or_quick_records_are_healthy(calls, other):
    large(calls, **other)
    assert calls.codes() == []
