# SPDX-License-Identifier: Apache-2.0
"""Clocks, the host, and counters of /proc."""

from __future__ import annotations

import io
import os
import re
import time

import pytest

from netdiag.recorder import facts

SECOND = 1_000_000_000


def pair(monotonic, realtime, boottime):
    return {"monotonic_ns": monotonic, "realtime_ns": realtime, "boottime_ns": boottime}


def test_three_clocks_are_read_together():
    before = time.monotonic_ns()
    clocks = facts.clock_pair()
    assert before <= clocks["monotonic_ns"] <= time.monotonic_ns()
    assert abs(clocks["realtime_ns"] - time.time_ns()) < SECOND
    assert clocks["boottime_ns"] >= clocks["monotonic_ns"] - SECOND


OFFSETS = """monotonic           5000         7
boottime           9000         0
"""


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        (OFFSETS, 5000 * SECOND + 7),
        ("monotonic -5 0\nboottime 0 0\n", -5 * SECOND),
        ("1 5000 7\n7 9000 0\n", 5000 * SECOND + 7),
        ("", 0),
        ("monotonic x\n", 0),
    ],
)
def test_what_a_time_namespace_moves_is_taken_back(monkeypatch, text, moved):
    monkeypatch.setattr(facts, "open", lambda *_, **__: io.StringIO(text), raising=False)
    facts._moved_ns.cache_clear()
    try:
        assert facts._moved_ns() == moved
        assert time.monotonic_ns() - facts.monotonic_ns() == pytest.approx(moved, abs=SECOND)
    finally:
        facts._moved_ns.cache_clear()


@pytest.mark.parametrize(
    ("now", "step"),
    [
        (pair(2 * SECOND, 52 * SECOND, 12 * SECOND), 0),
        (pair(2 * SECOND, 55 * SECOND, 12 * SECOND), 3 * SECOND),
        (pair(2 * SECOND, 42 * SECOND, 12 * SECOND), 10 * SECOND),
        (pair(2 * SECOND, 52 * SECOND + 7, 12 * SECOND), 7),
        (pair(2 * SECOND, 652 * SECOND, 612 * SECOND), 600 * SECOND),
    ],
    ids=["none", "set forward", "set back", "slewed", "suspended"],
)
def test_a_step_of_the_wall_clock_and_a_suspend_are_seen(now, step):
    assert facts.clock_step_ns(pair(1 * SECOND, 51 * SECOND, 11 * SECOND), now) == step


def test_instants_as_text():
    assert facts.rfc3339(0) == "1970-01-01T00:00:00.000000000Z"
    assert facts.rfc3339(1_790_000_000_000_000_042) == "2026-09-21T14:13:20.000000042Z"


def test_the_host_is_this_one():
    host = facts.host()
    assert host["kernel"] == os.uname().release
    assert host["arch"] == os.uname().machine
    assert host["cpus"] == os.cpu_count()


NETSTAT = """TcpExt: SyncookiesSent ListenOverflows ListenDrops
TcpExt: 1 22 333
IpExt: InNoRoutes
IpExt: 0
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NETSTAT, {"overflows": 22, "drops": 333}),
        ("", None),
        ("TcpExt: ListenOverflows\nTcpExt: 5\n", None),
        ("TcpExt: ListenOverflows ListenDrops\nTcpExt: 5\n", None),
        ("TcpExt: ListenOverflows ListenDrops\nTcpExt: x y\n", None),
    ],
)
def test_refused_accepts(monkeypatch, text, expected):
    monkeypatch.setattr(facts, "open", lambda *_, **__: io.StringIO(text), raising=False)
    assert facts.overflows() == expected


def test_counters_that_cannot_be_read_are_not_known(monkeypatch):
    def fails(*_args, **_kwargs):
        raise PermissionError

    monkeypatch.setattr(facts, "open", fails, raising=False)
    assert facts.overflows() is None


def test_the_counters_of_this_machine():
    counters = facts.overflows()
    assert counters is None or all(re.fullmatch(r"\d+", str(value)) for value in counters.values())
