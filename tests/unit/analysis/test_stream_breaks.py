# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.analysis import run
from netdiag.findings import Severity
from netdiag.tables.model import Loss

STEADY = [20.0] * 39
STALLED = [20.0] * 24 + [1200.0] + [20.0] * 14


def behind(calls, row, at, count=3):
    """Let the read at `at` ms follow segments that came out of order."""
    for burst in calls.rows["bursts"]:
        burst.setdefault("out_of_order", 0.0)
        if burst["connection"] == row and abs(burst["began_ns"] - at * 1e6) < 1e3:
            burst["out_of_order"] = float(count)


@pytest.mark.parametrize("exact", [True, False])
def test_a_steady_stream_is_healthy(calls, exact):
    row = calls.connection()
    for at in (0, 2000, 4000):
        calls.stream(row, at, STEADY, exact=exact)
    assert calls.codes() == []


@pytest.mark.parametrize(("exact", "sure"), [(True, 0.75), (False, 0.75)])
def test_a_server_that_stops_in_mid_stream(calls, exact, sure):
    row = calls.connection()
    for at in (0, 4000):
        calls.stream(row, at, STALLED, exact=exact)
    finding = calls.only("stream.server-stall")
    assert (finding.count, finding.of, finding.confidence) == (2, 2, sure)
    assert finding.cost_ms == pytest.approx(2 * 1180)
    assert finding.severity is Severity.CRITICAL
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(1200)
    assert finding.what_if is not None
    assert finding.what_if.startswith("time a call p50 2,060 → 880 ms")


@pytest.mark.parametrize("gap", [280.0, 200.0])
def test_a_pause_below_300_ms_is_no_stall(calls, gap):
    calls.stream(calls.connection(), 0, [20.0] * 24 + [gap] + [20.0] * 14)
    assert calls.codes() == []


def test_a_stream_that_always_pauses_does_not_stall(calls):
    calls.stream(calls.connection(), 0, [20.0, 20.0, 20.0, 400.0] * 10)
    assert calls.codes() == []


def test_a_short_stream_shows_a_stall_as_well(calls):
    calls.stream(calls.connection(), 0, [20.0] * 4 + [900.0] + [20.0] * 4)
    assert calls.codes() == ["stream.server-stall"]


def test_three_pieces_show_no_cadence(calls):
    calls.stream(calls.connection(), 0, [20.0, 900.0, 20.0])
    assert calls.codes() == []


def test_segments_out_of_order_blame_the_network(calls):
    row = calls.connection()
    calls.stream(row, 0, STALLED)
    behind(calls, row, 100 + 24 * 20 + 1200)
    finding = calls.only("stream.network-stall")
    assert finding.confidence == 0.9
    assert "out of order" in finding.evidence[0].note


def test_segments_out_of_order_elsewhere_do_not(calls):
    row = calls.connection()
    calls.stream(row, 0, STALLED)
    behind(calls, row, 100 + 10 * 20)
    finding = calls.only("stream.server-stall")
    assert finding.confidence == 0.9  # loss would have been seen


def test_a_server_end_that_sends_again_blames_the_network(calls):
    row = calls.connection(local_port=4711.0)
    twin = calls.connection(
        role="server", local_ip="192.0.2.1", local_port=443.0, remote_ip="127.0.0.1", remote_port=4711.0, pid=7.0
    )
    calls.stream(row, 0, STALLED)
    calls.rows["retransmits"].append({"connection": twin, "at_ns": 900e6, "bytes": 100.0})
    assert calls.codes() == ["stream.network-stall"]


@pytest.mark.parametrize(("sent", "code"), [(20.0, "stream.network-stall"), (1200.0, "stream.server-stall")])
@pytest.mark.parametrize("tick", [1.0, 4.0])
def test_the_senders_clock_tells_late_from_slow(calls, sent, code, tick):
    row = calls.connection()
    calls.stream(row, 0, STALLED + [20.0] * 40)
    clock = 0.0
    for index, burst in enumerate(calls.rows["bursts"]):
        clock += sent if index == 25 else 20.0
        burst["sent_tick"] = float(round((1000 + clock) / tick))
    assert calls.codes() == [code]


def test_a_retransmission_timer_shows_by_what_had_piled_up(calls):
    row = calls.connection(rtt_ms=30.0, min_rtt_ms=30.0)
    times = [20.0] * 20 + [800.0, 31.0, 32.0] + [20.0] * 20
    calls.stream(row, 0, times, exact=False, sizes=[120] * 21 + [1400, 2800, 600] + [120] * 20)
    finding = calls.only("stream.network-stall")
    assert finding.confidence == 0.7


@pytest.mark.parametrize(
    ("pauses", "sizes"),
    [
        ([800.0, 20.0, 20.0], [120, 120, 120]),  # nothing had piled up
        ([800.0, 20.0, 20.0], [4800, 120, 120]),  # all at once: somebody had held it back
        ([800.0, 200.0, 20.0], [1400, 2800, 600]),  # not a round trip
    ],
)
def test_other_ends_of_a_pause_are_the_servers(calls, pauses, sizes):
    row = calls.connection(rtt_ms=30.0, min_rtt_ms=30.0)
    calls.stream(row, 0, [20.0] * 20 + pauses + [20.0] * 20, exact=False, sizes=[120] * 21 + sizes + [120] * 20)
    assert calls.codes() == ["stream.server-stall"]


def test_a_reader_that_comes_late(calls):
    row = calls.connection()
    calls.stream(row, 0, STEADY)
    calls.rows["bursts"][10] |= {"began_ns": 900e6, "ended_ns": 900e6}  # came at 300 ms
    finding = calls.only("stream.reader-stall")
    assert finding.cost_ms == pytest.approx(600)
    assert finding.cause is None
    assert "600 ms in the socket before thread 100 read it" in finding.evidence[1].note


def test_a_reader_that_is_a_little_late_is_healthy(calls):
    calls.stream(calls.connection(), 0, STEADY)
    calls.rows["bursts"][10] |= {"began_ns": 550e6, "ended_ns": 550e6}
    assert calls.codes() == []


def test_streams_of_one_thread_that_lie_unread_together_show_a_blocked_loop(calls):
    for _ in range(3):
        calls.stream(calls.connection(), 0, STEADY)
    for first in (10, 50, 90):
        calls.rows["bursts"][first] |= {"began_ns": 900e6, "ended_ns": 900e6}
    finding = calls.only("stream.reader-stall")
    assert (finding.cause, finding.count) == ("event-loop", 3)


def test_a_full_receive_buffer_is_the_readers_fault(calls):
    row = calls.connection(zero_window_ms=1100.0)
    calls.stream(row, 0, STALLED)
    late = calls.rows["bursts"][24]  # arrived before the pause and read only at its end
    late |= {"began_ns": late["arrived_ns"] + 1190e6, "ended_ns": late["arrived_ns"] + 1190e6}
    finding = calls.only("stream.reader-stall")  # and tcp.zero-window is its evidence
    assert "tcp.zero-window" in {line.id for line in finding.evidence}


def test_heartbeats_without_content(calls):
    kinds = ["content"] * 10 + ["heartbeat"] * 4 + ["content"] * 10
    gaps = [20.0] * 9 + [5000.0] * 4 + [100.0] + [20.0] * 9
    calls.stream(calls.connection(), 0, gaps, kinds=kinds)
    finding = calls.only("stream.heartbeat-stall")
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(5.0)
    assert finding.cost_ms == pytest.approx(20_100)


def test_heartbeats_before_the_first_token_are_no_slow_server(calls):
    kinds = ["heartbeat"] * 5 + ["content"] * 10
    calls.stream(calls.connection(), 0, [1000.0] * 5 + [20.0] * 9, kinds=kinds, first=1000.0)
    assert calls.codes() == ["stream.heartbeat-stall"]


@pytest.mark.parametrize("kinds", [(["other"] + ["heartbeat"] * 4) * 6, ["heartbeat"] * 20])
def test_heartbeats_of_a_stream_of_rare_events_are_no_warning(calls, kinds):
    calls.stream(calls.connection(), 0.0, [2000.0] * (len(kinds) - 1), kinds=kinds)
    finding = calls.only("stream.heartbeat-stall")
    assert (finding.severity, finding.confidence) == (Severity.INFO, 0.4)


def test_heartbeats_of_a_model_that_says_nothing_are_a_stall(calls):
    calls.stream(calls.connection(), 0.0, [2000.0] * 9, kinds=["heartbeat"] * 10, model="m")
    assert "stream.heartbeat-stall" in calls.loud()


def test_heartbeats_between_tokens_are_healthy(calls):
    kinds = ["content", "heartbeat"] * 12
    calls.stream(calls.connection(), 0, [50.0] * 23, kinds=kinds)
    assert calls.codes() == []


def test_small_pieces_at_an_even_pace_are_like_heartbeats(calls):
    gaps = [20.0] * 9 + [15_000.0] * 4 + [20.0] * 10
    sizes = [200] * 10 + [40] * 4 + [200] * 10
    calls.stream(calls.connection(), 0, gaps, exact=False, sizes=sizes)
    finding = calls.only("stream.heartbeat-stall")
    assert finding.confidence == 0.6


@pytest.mark.parametrize(("close", "cause"), [("fin", "closed"), ("rst", "reset")])
def test_a_stream_cut_by_its_server(calls, close, cause):
    row = calls.connection(closed_by="remote", close=close, closing_at=485.0)
    calls.stream(row, 0, [20.0] * 19, complete=False)
    finding = next(finding for finding in calls.findings() if finding.code == "stream.truncated")
    assert (finding.cause, finding.severity) == (cause, Severity.CRITICAL)


@pytest.mark.parametrize(("close", "cut"), [("fin", False), ("rst", True)])
def test_what_its_program_left_unread_is_not_cut(calls, close, cut):
    """The server had sent all of it and closed; a reset throws away what was not read."""
    row = calls.connection(closed_by="remote", close=close, closing_at=485.0, unread=50_000.0)
    calls.stream(row, 0, [20.0] * 19, complete=False)
    assert ("stream.truncated" in calls.codes()) is cut


@pytest.mark.parametrize(("error", "cut"), [("reset by the server", True), ("cancelled", False), (None, False)])
def test_a_stream_of_http2_that_is_reset_alone_is_cut_though_its_connection_goes_on(calls, error, cut):
    row = calls.connection()
    calls.stream(row, 0, [20.0] * 19, complete=False, protocol="h2", error=error)
    calls.stream(row, 1000, protocol="h2")
    assert ("stream.truncated" in calls.codes()) is cut
    if cut:
        assert calls.only("stream.truncated").cause == "reset"


def test_a_stream_that_its_client_left_is_not_cut(calls):
    row = calls.connection(closed_by="local", close="fin", closing_at=485.0)
    calls.stream(row, 0, [20.0] * 19, complete=False)
    assert calls.codes() == []


def test_a_stream_whose_end_nobody_saw_is_not_cut(calls):
    calls.stream(calls.connection(), 0, [20.0] * 19, complete=False)
    assert calls.codes() == []


def test_a_record_that_ends_no_whole_stream_shows_a_cut(calls):
    whole = calls.connection()
    for at in (0, 2000):
        calls.stream(whole, at, [20.0] * 19, exact=False, sizes=[120] * 19 + [22])
    calls.stream(whole, 4000, [20.0] * 19, exact=False, sizes=[120] * 19 + [22])
    cut = calls.connection(closed_by="remote", close="fin", closing_at=6480.5)
    calls.stream(cut, 6000, [20.0] * 19, exact=False, sizes=[120] * 20)
    finding = calls.only("stream.truncated")
    assert (finding.count, finding.confidence) == (1, 0.6)


def test_a_stream_that_ends_like_the_others_is_whole(calls):
    whole = calls.connection()
    calls.stream(whole, 0, [20.0] * 19, exact=False, sizes=[120] * 19 + [22])
    closed = calls.connection(closed_by="remote", close="fin", closing_at=2480.5)
    calls.stream(closed, 2000, [20.0] * 19, exact=False, sizes=[120] * 19 + [22])
    assert "stream.truncated" not in calls.codes()


def test_lost_events_lower_the_confidence(calls):
    calls.stream(calls.connection(), 0, STALLED)
    tables = calls.tables()
    lossy = type(tables)(
        **{name: getattr(tables, name) for name in calls.rows},
        span_ms=tables.span_ms,
        losses=(Loss(probe="tcp", seen=10, lost=3),),
    )
    assert [finding.confidence for finding in run(lossy)] == [pytest.approx(0.52, abs=0.01)]
