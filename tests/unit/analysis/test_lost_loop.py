# SPDX-License-Identifier: Apache-2.0
"""Connections of an event loop that is gone: the answer came, and nobody was there to read it."""

from __future__ import annotations

import pytest

from netdiag.findings import Severity

CODE = "reuse.loop-per-call"


def left(stage, at, *, calls=(0.0, 100.0), **columns):
    """Add a connection whose last answer came 20 ms after its request and was not read."""
    row = stage.connection(at, calls, wait=20.0, counted=True, **columns)
    turns = [turn for turn in stage.turns if turn["connection"] == row][-2:]
    stage.connections[row] |= {
        "last_read_ns": turns[0]["last_byte_ns"], "last_received_ns": turns[1]["first_byte_ns"], "unread": 300.0,
    } | {name: columns[name] for name in ("last_read_ns", "last_received_ns") if name in columns}  # fmt: skip
    return row


def play(stage, count=3, *, libraries=("httpx",), exe="/usr/bin/python3.12", **columns):
    stage.process(libraries=libraries, exe=exe)
    for number in range(count):
        left(stage, number * 300.0, **columns)
    return {finding.code: finding for finding in stage.findings()}


def test_every_other_call_is_left(stage):
    found = play(stage)
    finding = found[CODE]
    assert (finding.count, finding.of, finding.confidence) == (2, 6, 0.9)
    assert finding.severity in (Severity.WARNING, Severity.CRITICAL)
    assert finding.cost_ms > 0
    assert "reuse.body-unread" not in found


def test_a_loop_may_have_made_several_calls(stage):
    assert play(stage, calls=(0.0, 10.0, 10.0, 100.0))[CODE].count == 2


@pytest.mark.parametrize(
    "columns",
    [
        {"last_read_ns": 1e12},  # it was read
        {"last_received_ns": 0.0},  # nothing came
        {"last_read_ns": float("nan")},  # not known
        {"closed_by": "remote"},
        {"calls": (0.0,)},  # nothing had been read on it before
    ],
)
def test_what_is_none(stage, columns):
    if columns.get("calls") == (0.0,):
        stage.process(libraries=("httpx",))
        for number in range(3):
            stage.connection(
                number * 300.0, (0.0,), counted=True, last_read_ns=number * 3e8, last_received_ns=number * 3e8 + 9e7
            )
        assert CODE not in {finding.code for finding in stage.findings()}
    else:
        assert CODE not in play(stage, **columns)


def test_twice_is_once_with_a_successor(stage):
    assert CODE not in play(stage, count=2)


@pytest.mark.parametrize("program", [{"exe": "/usr/bin/curl"}, {"libraries": ("requests",)}])
def test_a_program_without_event_loops_of_python_has_another_reason(stage, program):
    assert CODE not in play(stage, **program)
