# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import pytest

from netdiag.analysis.case import Options, prepare
from netdiag.analysis.lost_pool import parallel_calls
from netdiag.findings import Severity


def rounds(stage, times, burst, kept, tls=True):
    """Play bursts of parallel calls with a pool that keeps the first connections and closes the others."""
    for _ in range(kept):
        stage.connection(0, [0] + [400] * (times - 1), tls=tls, wait=30)
    for turn in range(times):
        for extra in range(burst - kept):
            stage.connection(turn * 430 + 1 + extra * 0.1, closed_by="local", tls=tls, wait=30)


@pytest.fixture(params=[1, 2, 3])
def dice(request):
    return random.Random(request.param)


def test_pool_too_small(stage, dice):
    kept = dice.randint(1, 4)
    burst = kept + dice.randint(2, 5)
    stage.process(1, libraries=["httpx"])
    rounds(stage, 4, burst, kept)
    finding = stage.only("reuse.pool-too-small")
    assert finding.learned is not None
    assert finding.learned.value == kept
    assert finding.advice[0].value == str(burst)
    assert f"{kept} of {burst}" in finding.title


def test_a_pool_that_fits_is_healthy(stage):
    rounds(stage, 5, 5, 5)
    assert stage.codes() == []


def test_a_second_round_alone_is_no_habit(stage):
    rounds(stage, 2, 2, 1)
    assert stage.codes() == []


def test_a_client_per_call_beside_a_session_is_no_small_pool(stage):
    stage.connection(0, [0, 3000, 3000])
    at = 200.0
    for _ in range(5):
        at = stage.end_of(stage.connection(at, closed_by="local")) + 100
    assert stage.codes() == ["reuse.client-per-call"]


def test_parallel_calls(stage):
    for at in (0, 1, 2, 300):
        stage.connection(at, tls=False)
    assert parallel_calls(prepare(stage.tables(), Options()).links) == 3


def test_pools_that_are_not_shared(stage):
    for call in range(5):
        stage.connection(call * 300)
    finding = stage.only("reuse.pool-split")
    assert finding.count == 4
    assert finding.severity is Severity.CRITICAL


def test_pools_that_are_closed_when_the_program_ends(stage):
    stage.process(1, ended_ns=2000e6)
    for call in range(4):
        row = stage.connection(call * 300, closed_by="local")
        stage.connections[row] |= {"closing_ns": 1990e6, "idle_before_close_ms": 1940.0 - call * 300}
    assert stage.only("reuse.pool-split").count == 3


def test_connections_with_a_cause_are_not_counted_again(stage):
    for call in range(5):
        stage.connection(call * 300, closed_by="remote", idle=700)
    assert stage.codes() == ["reuse.server-idle-timeout"]


def test_a_client_per_thread_that_stays_open(stage):
    for call in range(5):
        stage.connection(call * 300, tid=float(20 + call))
    stage.only("reuse.client-per-thread")


def test_addresses_in_turn(stage):
    for call in range(5):
        stage.connection(call * 300, remote_name="api.example.test", remote_ip=f"192.0.2.{call + 1}")
    finding = stage.only("reuse.address-rotation")
    assert finding.subject.host == "api.example.test"


def test_an_extra_connection_or_two_is_no_split_pool(stage):
    stage.connection(0)
    stage.connection(300)
    stage.connection(600, [0] + [50] * 7)
    assert stage.codes() == []


def test_parallel_calls_need_their_connections(stage):
    for at in range(5):
        stage.connection(at, [0, 300, 300])
    assert stage.codes() == []


def test_a_cold_burst_is_a_remark(stage):
    for at in range(9):
        stage.connection(at, [0, 300])
    finding = stage.only("reuse.cold-burst")
    assert finding.severity is Severity.INFO
    assert finding.cost_ms == pytest.approx(26.55)


def test_seven_connections_are_no_burst(stage):
    for at in range(7):
        stage.connection(at, [0, 300])
    assert stage.codes() == []


def test_a_pool_that_keeps_the_youngest_is_too_small_as_well(stage):
    """Each burst uses what was kept of the one before and opens the rest; then the older ones are given up."""
    for turn in range(5):
        for place in range(7):
            old = turn > 0 and place < 3
            if not old:
                kept = place >= 4 and turn < 4
                calls = [0.0, 170.0] if kept else [0.0]
                closed = None if turn == 4 else "local"
                stage.connection(turn * 200 + place * 0.1, calls, closed_by=closed, tls=False, wait=30, idle=0.5)
    finding = stage.only("reuse.pool-too-small")
    assert finding.learned is not None
    assert finding.learned.value == 3


def test_what_a_pool_gives_up_is_no_close_of_the_server(stage):
    stage.process(1, libraries=["httpx"])
    rounds(stage, 5, 5, 1)
    for row in range(len(stage.connections)):
        stage.tls_calls.append({"connection": row, "pid": 1.0, "ok": True})
    assert stage.codes() == ["reuse.pool-too-small"]
