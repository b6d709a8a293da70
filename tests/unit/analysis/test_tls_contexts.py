# SPDX-License-Identifier: Apache-2.0
"""Contexts that the library was seen to build: when they are a habit, and what they prove about clients."""

from __future__ import annotations

import pytest

from netdiag.analysis import run
from netdiag.findings import Severity
from netdiag.testing import connection, process, tables

CODE = "tls.context-per-client"


def traced(builds, *, calls=True, pause=0.2, requests=1.0):
    """Return tables of one connection for each list of builds, in ms; `pause` from connect to ClientHello."""
    rows, shakes, made, built = [], [], [], []
    for number, times in enumerate(builds):
        at = number * 1000.0
        rows.append(
            connection(
                opened_at=at, established_at=at + 1, encrypted=True, requests=requests, turns=2.0,
                bytes_received=5000.0, first_sent_at=at + 1, first_received_at=at + 5, handshake=f"h{number + 1}",
            )
        )  # fmt: skip
        hello = (at + 1 + pause) * 1e6
        shakes.append({"id": f"h{number + 1}", "connection": number, "pid": 100.0, "started_ns": hello,
                       "duration_ms": 4.0, "outcome": "completed", "version": "TLSv1.3", "source": "both"})  # fmt: skip
        if calls:
            made.append(
                {"connection": number, "pid": 100.0, "tid": 100.0, "started_ns": hello, "ended_ns": hello + 4e6}
            )
        built += [
            {"connection": float(number), "pid": 100.0, "tid": 100.0, "duration_ms": took, "kind": "context"}
            for took in times
        ]
    return tables(connections=rows, handshakes=shakes, tls_calls=made, contexts=built, processes=[process()])


def found(case):
    return [finding for finding in run(case) if finding.code == CODE]


def test_one_for_each_connection_is_a_habit_and_the_first_is_needed():
    (finding,) = found(traced([[0.1, 20.0]] * 6))
    assert (finding.count, finding.of, finding.cost_ms) == (5, 6, pytest.approx(5 * 20.1))
    assert finding.confidence == 0.95
    assert finding.cause == "built-anew"


@pytest.mark.parametrize(
    "builds",
    [
        [[20.0]] + [[]] * 9,  # one, shared
        [[20.0, 20.0, 20.0]] + [[]] * 9,  # several at the start, as imports make them
        [[0.1]] * 10,  # empty ones, which cost nothing
        [[20.0]] * 3,  # too few to be a habit
        [[20.0], [20.0], [20.0], [20.0]] + [[]] * 4,  # half of them
    ],
    ids=["shared", "imports", "empty", "few", "half"],
)
def test_what_is_no_habit_is_not_named(builds):
    assert found(traced(builds)) == []


def test_a_library_that_built_none_refutes_what_a_pause_suggests():
    guess = traced([[]] * 6, calls=False, pause=30.0)
    assert [finding.cause for finding in found(guess)] == [None]
    assert found(traced([[]] * 6, pause=30.0)) == []


def test_contexts_of_connections_that_serve_many_calls_are_a_remark():
    (finding,) = found(traced([[20.0]] * 6, requests=5.0))
    assert finding.severity is Severity.INFO
