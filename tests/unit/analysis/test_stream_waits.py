# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag import testing
from netdiag.findings import Severity

# --- first token ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("exact", "sure"), [(True, 0.9), (False, 0.7)])
def test_a_late_first_token_and_then_a_steady_stream(calls, exact, sure):
    row = calls.connection()
    for at in (0, 5000, 10_000):
        calls.stream(row, at, first=1500.0, exact=exact)
    finding = calls.only("stream.slow-first-token")
    assert (finding.count, finding.of, finding.confidence) == (3, 3, sure)
    assert finding.cost_ms == pytest.approx(3000)
    assert finding.what_if is not None
    assert finding.what_if.startswith("time to first token p50 1,500 → 500 ms")


def test_a_stall_later_on_does_not_hide_it(calls):
    row = calls.connection()
    for at in (0, 5000, 10_000):
        calls.stream(row, at, [20.0] * 15 + [1200.0] + [20.0] * 15, first=1000.0)
    assert set(calls.codes()) == {"stream.slow-first-token", "stream.server-stall"}


def test_a_server_that_stutters_on_is_not_slow_to_begin(calls):
    row = calls.connection()
    for at in (0, 9000, 18_000):
        calls.stream(row, at, [20.0, 900.0] * 4, first=1000.0)
    assert "stream.slow-first-token" not in calls.codes()


def test_one_late_first_token_is_a_remark(calls):
    calls.stream(calls.connection(), 0, first=1500.0)
    assert calls.only("stream.slow-first-token").severity is Severity.INFO


@pytest.mark.parametrize("first", [100.0, 480.0])
def test_under_the_limit_it_is_not_said(calls, first):
    row = calls.connection()
    for at in (0, 5000, 10_000):
        calls.stream(row, at, first=first)
    assert calls.codes() == []


def test_a_few_late_first_tokens_are_not_the_rule(calls):
    row = calls.connection()
    for index in range(10):
        calls.stream(row, index * 5000.0, first=1500.0 if index < 3 else 100.0)
    assert calls.codes() == []


def test_a_wait_that_grows_with_the_prompt_is_prefill(calls):
    row = calls.connection()
    for index in range(6):
        calls.stream(row, index * 5000.0, first=700.0 + 200 * index, request_bytes=10_000.0 * (index + 1))
    assert calls.only("stream.slow-first-token").cause == "prefill"


def test_what_the_server_says_of_it(calls):
    row = calls.connection()
    for at in (0, 5000, 10_000):
        calls.stream(row, at, first=1500.0, server_reported_ms=1480.0)
    assert "itself says 1.5 s" in calls.only("stream.slow-first-token").evidence[0].note


# --- buffered ---------------------------------------------------------------------------------------------------------


def lumps(calls, *, bursts, each, apart, first, count=3, **columns):
    row = calls.connection()
    for index in range(count):
        gaps = [apart] * (bursts - 1)
        number = calls.stream(row, index * 10_000.0, gaps, first=first, **columns)
        for chunk in calls.rows["chunks"]:
            if chunk["request"] == number:
                chunk["events"] = float(each)


@pytest.mark.parametrize(
    "shape",
    [
        {"bursts": 4, "each": 50, "apart": 900.0, "first": 1000.0},
        {"bursts": 1, "each": 200, "apart": 0.0, "first": 4000.0},
        {"bursts": 2, "each": 30, "apart": 2.0, "first": 3000.0},
    ],
)
def test_many_events_in_few_bursts(calls, shape):
    lumps(calls, **shape)
    finding = calls.only("stream.buffered")
    assert finding.severity is Severity.WARNING
    assert (finding.count, finding.cost_ms) == (3, None)


def test_once_in_lumps_is_a_remark(calls):
    lumps(calls, bursts=4, each=50, apart=900.0, first=1000.0, count=1)
    assert calls.only("stream.buffered").severity is Severity.INFO


def test_events_of_no_model_that_come_at_once_are_a_remark(calls):
    row = calls.connection()
    for index in range(3):
        calls.stream(row, index * 1000.0, [0.01] * 29, first=350.0, kinds=["other"] * 30)
    assert calls.only("stream.buffered").severity is Severity.INFO


@pytest.mark.parametrize(
    "shape",
    [
        {"bursts": 40, "each": 1, "apart": 20.0, "first": 100.0},
        {"bursts": 40, "each": 4, "apart": 80.0, "first": 100.0},  # several tokens a step
        {"bursts": 1, "each": 12, "apart": 0.0, "first": 60.0},  # short, and over at once
        {"bursts": 3, "each": 2, "apart": 300.0, "first": 100.0},
    ],
)
def test_streams_that_flow_are_not_buffered(calls, shape):
    lumps(calls, **shape)
    assert calls.codes() == []


def test_a_compressed_stream_names_the_compression(calls):
    lumps(calls, bursts=2, each=60, apart=900.0, first=900.0, headers={"content-encoding": "gzip"})
    assert calls.only("stream.buffered").cause == "compressed"


# --- a proxy that was traced ------------------------------------------------------------------------------------------


def proxied(calls, *, delay, pieces):
    """A proxy gets 40 pieces from 100 ms on and hands them on `delay` ms later in `pieces`."""
    up = calls.connection(pid=7.0)
    down = calls.connection(pid=7.0, role="server", remote_ip="127.0.0.1", remote_port=50_000.0, local_port=8080.0)
    for at in (0.0, 5000.0, 10_000.0):
        first = at + 100 + delay
        end = max(at + 100 + 39 * 20.0, first + 10)
        calls.call(down, at, 100 + delay, pid=7.0, source="sockets", ended_at=end)
        for index in range(pieces):
            calls.rows["bursts"].append(testing.burst(down, "send", first + (end - first) * index / pieces))
        calls.stream(up, at + 1, [20.0] * 39, first=99.0, exact=False, pid=7.0)
    calls.rows["processes"].append(testing.process(7, exe="/usr/sbin/nginx"))


def test_a_proxy_on_this_machine_that_holds_back(calls):
    proxied(calls, delay=780.0, pieces=2)
    finding = calls.only("stream.buffered")
    assert (finding.cause, finding.confidence, finding.count) == ("proxy", 0.95, 3)
    assert finding.cost_ms == pytest.approx(3 * 780, rel=0.01)
    assert "nginx on this machine" in finding.title
    assert finding.what_if is not None
    assert finding.what_if.startswith("time to first token p50 880 → 100 ms")


def test_a_proxy_that_hands_on_at_once_is_healthy(calls):
    proxied(calls, delay=0.2, pieces=40)
    assert calls.codes() == []


# --- cache of prompts -------------------------------------------------------------------------------------------------


def prompts(calls, shares, firsts, size=8000.0):
    row = calls.connection()
    for index, (share, first) in enumerate(zip(shares, firsts, strict=True)):
        calls.stream(row, index * 5000.0, first=first, input_tokens=size + index, cached_tokens=size * share, model="m")


def test_prompts_that_miss_the_cache(calls):
    prompts(calls, [0, 0.9, 0.9, 0, 0, 0, 0.9, 0], [450, 120, 120, 400, 420, 410, 120, 430])
    finding = calls.only("stream.prefix-cache-miss")
    assert (finding.count, finding.of) == (4, 8)
    assert finding.cost_ms == pytest.approx(280 + 300 + 290 + 310)


@pytest.mark.parametrize(
    ("shares", "firsts", "size"),
    [
        ([0, 0.9, 0.9, 0.9, 0.9], [450, 120, 120, 120, 120], 8000.0),  # the first cannot be cached
        ([0, 0.9, 0.9, 0, 0, 0], [450, 120, 120, 125, 118, 121], 8000.0),  # no later for it
        ([0] * 8, [450] * 8, 8000.0),  # never cached
        ([0, 0.9, 0.9, 0, 0, 0, 0.9, 0], [450, 120, 120, 400, 420, 410, 120, 430], 200.0),  # too short
    ],
)
def test_other_prompts_are_no_matter(calls, shares, firsts, size):
    prompts(calls, shares, firsts, size)
    assert calls.codes() == []
