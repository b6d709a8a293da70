# SPDX-License-Identifier: Apache-2.0
"""A program that was stopped while servers closed its connections; short stops and long pauses are other causes."""

from __future__ import annotations

import pytest

from netdiag.analysis import run
from netdiag.findings import Severity
from netdiag.tables.schema import frame

CODE = "reuse.frozen-process"
NAN = float("nan")


def play(stage, stops, *, raced=True, pause=1000.0, times=3):
    """Play connections that rest for `pause` ms after an answer; the server closes 200 ms into the rest.

    `stops` are (begin, end) in ms from the start of the rest; with `raced` a request meets each dead connection.
    """
    stage.process(libraries=("httpx",))
    rows = []
    for number in range(times):
        at = number * 5000.0
        row = stage.connection(at, (0.0, pause) if raced else (0.0,), wait=20.0, counted=True, tls=False,
                               unanswered=raced, closed_by="remote", close="rst" if raced else "fin")  # fmt: skip
        calls = [turn for turn in stage.turns if turn["connection"] == row]
        rest = calls[0]["last_byte_ns"] / 1e6
        stage.connections[row]["closing_ns"] = (rest + pause + 0.1 if raced else rest + 200.0) * 1e6
        stage.connections[row]["idle_before_close_ms"] = 0.1 if raced else 200.0
        rows += [
            {
                "pid": pid,
                "began_ns": (rest + begin) * 1e6,
                "ended_ns": (rest + end) * 1e6,
                "lasted_ms": lasted,
                "how": how,
            }
            for begin, end, lasted, pid, how in (stop(*each) for each in stops)
        ]
    tables = stage.tables()
    object.__setattr__(
        tables, "stops", frame("stops", len(rows), {name: [row[name] for row in rows] for name in rows[0]})
    )
    return {finding.code: finding for finding in run(tables)}


def stop(begin, end, lasted=None, pid=1.0, how="signal"):
    return begin, end, end - begin if lasted is None else lasted, pid, how


def test_requests_that_met_dead_connections(stage):
    found = play(stage, [(20, 980)])
    finding = found[CODE]
    assert (finding.count, finding.confidence) == (3, 0.9)
    assert finding.severity in (Severity.WARNING, Severity.CRITICAL)
    assert (finding.learned.low, finding.learned.unit) == (pytest.approx(0.96), "s")
    assert "reuse.stale-race" not in found


def test_once_is_enough_where_a_request_failed(stage):
    assert play(stage, [(20, 980)], times=1)[CODE].count == 1


def test_a_machine_that_slept(stage):
    assert play(stage, [(20, 20, 60_000.0, NAN, "sleep")], pause=100.0)[CODE].learned.value == pytest.approx(60)


def test_connections_that_were_lost_without_a_failure_are_a_remark(stage):
    assert play(stage, [(20, 980)], raced=False)[CODE].severity == Severity.INFO


@pytest.mark.parametrize(
    "stops",
    [
        [(20, 200)],  # short
        [(20, 400)],  # the program's own pause was longer
        [(-900, -20)],  # before
        [(1100, 2100)],  # after
        [(20, 980, None, 2.0)],  # another process
    ],
)
def test_other_pauses_are_stale_races(stage, stops):
    found = play(stage, stops)
    assert CODE not in found
    assert "reuse.stale-race" in found
