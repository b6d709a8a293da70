# SPDX-License-Identifier: Apache-2.0
"""One row per socket, with what became of it."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.testing import START_NS, RecordingBuilder

ESTABLISHED, FAILED, CLOSED, SNAPSHOT, LISTENER = 1, 2, 3, 4, 5
PREEXISTING, NEVER_SENT = 1, 8


def ns(ms):
    return START_NS + round(ms * 1e6)


def event(builder, **members):
    default = {
        "cookie": 1, "time": ns(5), "kind": FAILED, "state": 2, "role": 1, "family": 2, "tgid": 7, "tid": 8,
        "comm": "curl", "opened": ns(1), "sport": 40000, "dport": 80, "saddr": "10.0.0.1", "daddr": "10.0.0.2",
    }  # fmt: skip
    return builder.record("tcp", **(default | members))


def only(builder, **kwargs):
    rows = build(builder.recording(**kwargs)).connections.to_dict("records")
    assert len(rows) == 1
    return rows[0]


@pytest.mark.parametrize(
    ("error", "outcome", "name"),
    [
        (111, "refused", "ECONNREFUSED"),
        (110, "timeout", "ETIMEDOUT"),
        (113, "unreachable", "EHOSTUNREACH"),
        (101, "unreachable", "ENETUNREACH"),
        (13, "unreachable", "EACCES"),
        (104, "reset", "ECONNRESET"),
        (0, "cancelled", None),
        (77, "unreachable", "errno 77"),
    ],
)
def test_a_connect_that_failed(error, outcome, name):
    row = only(event(RecordingBuilder(), error=error))
    assert (row["outcome"], row["error"], row["close"], row["closed_by"]) == (outcome, name, None, None)
    assert row["ended_ns"] == 5e6
    assert np.isnan(row["connect_ms"])
    assert np.isnan(row["closing_ns"])


def test_no_syn_left_and_nobody_knows_why():
    row = only(event(RecordingBuilder(), flags=NEVER_SENT, state=7))
    assert (row["outcome"], row["error"], row["never_sent"]) == ("unreachable", None, True)


def test_no_local_port_was_free():
    row = only(event(RecordingBuilder(), flags=NEVER_SENT, state=2, sport=0))
    assert (row["outcome"], row["error"], row["never_sent"]) == ("unreachable", "EADDRNOTAVAIL", True)
    assert np.isnan(row["local_port"])


@pytest.mark.parametrize(("kind", "state", "outcome"), [(SNAPSHOT, 2, "pending"), (SNAPSHOT, 1, "established")])
def test_what_is_still_there_at_the_end(kind, state, outcome):
    row = only(event(RecordingBuilder(), kind=kind, state=state, established=ns(2) if state == 1 else 0))
    assert (row["outcome"], row["close"]) == (outcome, "open")
    assert np.isnan(row["ended_ns"])


def test_the_last_record_counts_and_keeps_what_an_earlier_one_knew():
    builder = event(RecordingBuilder(), kind=ESTABLISHED, state=1, established=ns(2), time=ns(2), bytes_sent=0)
    event(builder, kind=CLOSED, state=4, time=ns(9), opened=0, established=0, bytes_sent=700, closing=ns(8), close=1)
    event(builder, kind=SNAPSHOT, state=1, time=ns(9.5), bytes_sent=650)
    row = only(builder)
    assert (row["opened_ns"], row["established_ns"], row["ended_ns"], row["bytes_sent"]) == (1e6, 2e6, 9e6, 700)
    assert row["connect_ms"] == 1


def test_both_ends_are_two_connections():
    builder = event(RecordingBuilder(), kind=SNAPSHOT, state=1, established=ns(2), time=ns(2))
    event(builder, cookie=2, role=2, kind=SNAPSHOT, state=1, established=ns(2), opened=ns(1.5), saddr="10.0.0.2")
    rows = build(builder.recording()).connections
    assert rows["role"].tolist() == ["client", "server"]
    assert rows["id"].tolist() == ["c1", "c2"]
    assert rows["connect_ms"].isna().tolist() == [False, True]


def test_order_is_that_of_opening_with_older_ones_first():
    builder = event(RecordingBuilder(), cookie=5, opened=ns(3), kind=SNAPSHOT)
    event(builder, cookie=6, opened=ns(2), kind=SNAPSHOT)
    event(builder, cookie=7, opened=0, kind=SNAPSHOT, flags=PREEXISTING, state=1, time=ns(9))
    assert build(builder.recording()).connections["cookie"].tolist() == [7, 6, 5]


def test_owners_addresses_and_numbers():
    row = only(
        event(
            RecordingBuilder(), kind=SNAPSHOT, state=1, established=ns(2), flags=2 | 4 | 16, srtt=1500, mss=1448,
            zero_window=2_000_000, rwnd_limited=25, netns=9, cgroup=(1 << 60) + 1, family=10, daddr="2001:db8::1",
        )
    )  # fmt: skip
    assert (row["pid"], row["tid"], row["comm"], row["role"]) == (7, 8, "curl", "client")
    assert (row["protocol"], row["family"], row["remote_ip"]) == ("mptcp", "ipv6", "2001:db8::1")
    assert (row["local_ip"], row["local_port"], row["remote_port"]) == ("10.0.0.1", 40000, 80)
    assert (row["keepalive_probes"], row["shared"], row["netns"], row["cgroup"]) == (True, True, 9, (1 << 60) + 1)
    assert (row["rtt_ms"], row["zero_window_ms"], row["peer_window_ms"], row["mss"]) == (1.5, 2, 100, 1448)
    assert np.isnan(row["min_rtt_ms"])


def test_the_ticks_are_those_of_the_traced_machine():
    builder = RecordingBuilder(host={"hz": 1000})
    assert only(event(builder, kind=SNAPSHOT, rwnd_limited=25))["peer_window_ms"] == 25


def test_the_length_of_a_jiffy_that_the_recorder_measured_counts():
    builder = RecordingBuilder(host={"hz": None})
    builder.fact("kernel", hz=100)
    assert only(event(builder, kind=SNAPSHOT, rwnd_limited=25))["peer_window_ms"] == 250


@pytest.mark.parametrize(("limited", "expected"), [(25, float("nan")), (0, 0.0)])
def test_jiffies_of_unknown_length_are_no_time(limited, expected):
    row = only(event(RecordingBuilder(host={"hz": None}), kind=SNAPSHOT, rwnd_limited=limited))
    assert row["peer_window_ms"] == pytest.approx(expected, nan_ok=True)


def test_a_fin_that_came_before_the_trace_is_the_peers():
    closed = {"closing": ns(5), "closed_by": 1, "close": 2}
    row = only(event(RecordingBuilder(), kind=CLOSED, state=9, flags=PREEXISTING, opened=0, **closed))
    assert (row["closed_by"], row["close"]) == ("remote", "fin")
    assert np.isnan(row["closing_ns"])
    assert np.isnan(row["idle_before_close_ms"])


@pytest.mark.parametrize(("lost", "close"), [(0, "open"), (3, None)])
def test_with_events_lost_nobody_knows_whether_it_is_open(lost, close):
    builder = event(RecordingBuilder(), kind=ESTABLISHED, state=1, established=ns(2))
    builder.fact("loss", probe="tcp", seen=1, lost=lost)
    assert only(builder)["close"] == close


def test_listeners_have_their_first_and_last_look():
    builder = RecordingBuilder()
    for at, drops in ((1, 0), (2, 4), (3, 9)):
        event(builder, kind=LISTENER, state=10, time=ns(at), sport=80, drops=drops, accept_queue=at, accept_queue_max=5)
    event(builder, cookie=2, kind=LISTENER, state=10, time=ns(2), sport=81)
    tables = build(builder.recording())
    assert len(tables.connections) == 0
    assert tables.listeners[["local_port", "drops", "accept_queue"]].to_numpy().tolist() == [
        [80, 0, 1], [80, 9, 3], [81, 0, 0],
    ]  # fmt: skip


def test_a_socket_that_connects_again_makes_another_connection():
    """Refused first, then connected; calls go to the connection that they were made in."""
    builder = event(RecordingBuilder(), error=111, opened=ns(1), time=ns(2))
    for time, kind in ((11, ESTABLISHED), (20, CLOSED)):
        event(builder, kind=kind, opened=ns(10), established=ns(11), time=ns(time), bytes_sent=5)
    event(builder, kind=SNAPSHOT, opened=ns(30), established=ns(31), time=ns(40), state=1, bytes_sent=9)
    for at, size in ((15, 5), (35, 9)):
        member = {"began": ns(at), "ended": ns(at), "time": ns(at), "direction": 1, "bytes": size, "calls": 1}
        builder.record("tcp_io", cookie=1, **member)
    tables = build(builder.recording())
    assert tables.connections["outcome"].tolist() == ["refused", "established", "established"]
    assert tables.connections["bytes_sent"].tolist() == [0, 5, 9]
    assert tables.connections["id"].tolist() == ["c1", "c2", "c3"]
    assert tables.bursts[["connection", "bytes"]].to_numpy().tolist() == [[1, 5], [2, 9]]


def test_a_socket_older_than_the_trace_that_is_dissolved_and_connects_again():
    builder = event(RecordingBuilder(), kind=CLOSED, opened=0, flags=PREEXISTING, time=ns(5))
    event(builder, kind=SNAPSHOT, opened=ns(10), established=ns(11), time=ns(20), state=1)
    rows = build(builder.recording()).connections
    assert rows["preexisting"].tolist() == [True, False]
    assert np.isnan(rows["opened_ns"][0])
