# SPDX-License-Identifier: Apache-2.0
"""Handshakes by library: whose connection they are, and when it is better to say nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.tables.library import bind, built_for, join, made_too_soon, tls_libraries
from netdiag.tables.schema import frame
from netdiag.testing import START_NS, RecordingBuilder


def at(ms):
    return START_NS + round(ms * 1e6)


def call(builder, first, done, *, kind=1, **members):
    """Add a record of a call; times in ms."""
    default = {"inside": round((done - first) * 1e6), "cpu": 300_000, "calls": 2, "ok": 1, "library": 1}
    default |= {"tgid": 100, "tid": 100}
    return builder.record("tls_call", time=at(done), first=at(first), done=at(done), kind=kind, **(default | members))


def handshake_on_wire(builder, cookie, began):
    for direction, after, kind, length, first in [
        ("send", 0, 22, 512, 1), ("receive", 1, 22, 122, 2), ("receive", 1, 23, 1200, 0), ("send", 2, 23, 69, 0),
        ("send", 3, 23, 300, 0), ("receive", 40, 23, 900, 0),
    ]:  # fmt: skip
        builder.wire(cookie, direction, began + after, kind, length, first)
    return builder


def conversation(builder, opened):
    builder.connection([("send", opened + 1, 517), ("receive", opened + 2, 1400)], opened=opened, dport=443)
    return builder


def rows(count, hellos, pids=None):
    """Return handshakes on the wire of connections 0, 1, … at these instants (ms)."""
    columns = {
        "id": [f"h{number + 1}" for number in range(count)],
        "connection": list(range(count)),
        "pid": pids or [100.0] * count,
        "started_ns": [hello * 1e6 for hello in hellos],
        "source": ["wire"] * count,
    }
    return frame("handshakes", count, columns)


def calls(*made):
    """Return handshakes by library: (connection, binding, first ms, done ms) and a pid where it is not 100."""
    columns = {
        "connection": [math.nan if row is None else float(row) for row, *_ in made],
        "binding": [binding for _, binding, *_ in made],
        "started_ns": [first * 1e6 for _, _, first, *_ in made],
        "ended_ns": [done * 1e6 for _, _, _, done, *_ in made],
        "pid": [float(rest[0]) if rest else 100.0 for _, _, _, _, *rest in made],
        "ok": [True] * len(made),
        "library": ["openssl"] * len(made),
        "cpu_ms": [0.5] * len(made),
    }
    return frame("tls_calls", len(made), columns)


def bound(*made, hellos, watched=True, pids=None):
    result = bind(calls(*made), rows(len(hellos), hellos, pids), watched=watched)
    return [None if math.isnan(row) else int(row) for row in result["connection"]], list(result["binding"])


# --- from records to tables ---------------------------------------------------------------------------------------


def test_a_whole_recording():
    builder = RecordingBuilder()
    conversation(builder, 10)
    conversation(builder, 200)
    handshake_on_wire(builder, 1, 11)
    handshake_on_wire(builder, 2, 201)
    call(builder, 5, 5.2, kind=2, calls=1)
    call(builder, 5.3, 25.3, kind=3, calls=1, cpu=0)
    call(builder, 10.8, 13.5, cookie=1, binding=1)
    call(builder, 200.8, 203.5, cookie=2, binding=2, cpu=0)
    tables = build(builder.recording())
    made = tables.tls_calls
    assert list(made["connection"]) == [0, 1]
    assert list(made["binding"]) == ["calls", "order"]
    assert list(made["ok"]) == [True, True]
    assert list(made["inside_ms"]) == pytest.approx([2.7, 2.7])
    assert made["cpu_ms"].iloc[0] == pytest.approx(0.3)
    assert math.isnan(made["cpu_ms"].iloc[1])
    assert list(tables.contexts["kind"]) == ["context", "ca-bundle"]
    assert list(tables.contexts["duration_ms"]) == pytest.approx([0.2, 20.0])
    assert list(tables.contexts["connection"]) == [0, 0]
    assert list(tables.handshakes["source"]) == ["both", "both"]
    assert list(tables.handshakes["library"]) == ["openssl", "openssl"]


def test_a_recording_without_the_probe():
    tables = build(handshake_on_wire(conversation(RecordingBuilder(), 10), 1, 11).recording())
    assert len(tables.tls_calls) == len(tables.contexts) == 0
    assert list(tables.handshakes["source"]) == ["wire"]
    assert list(tables.handshakes["library"]) == [None]


def test_without_the_wire_the_library_alone_tells():
    builder = conversation(RecordingBuilder(), 10)
    call(builder, 10.8, 13.5, cookie=1, binding=1)
    tables = build(builder.recording())
    (shake,) = tables.handshakes.to_dict("records")
    assert (shake["id"], shake["source"], shake["outcome"], shake["connection"]) == ("h1", "library", "completed", 0)
    assert shake["duration_ms"] == pytest.approx(2.7)
    assert shake["version"] is None
    assert list(tables.connections["handshake"]) == ["h1"]


def test_one_that_did_not_work_has_no_duration():
    builder = conversation(RecordingBuilder(), 10)
    call(builder, 10.8, 13.5, cookie=1, binding=1, ok=0, result=-1)
    (shake,) = build(builder.recording()).handshakes.to_dict("records")
    assert shake["outcome"] == "failed"
    assert math.isnan(shake["duration_ms"])


def test_a_socket_that_nobody_traced_binds_nothing():
    tables = build(call(conversation(RecordingBuilder(), 10), 10.8, 13.5, cookie=77, binding=1).recording())
    assert math.isnan(tables.tls_calls["connection"].iloc[0])
    assert tables.tls_calls["binding"].iloc[0] is None


# --- bindings -----------------------------------------------------------------------------------------------------


def test_what_the_calls_used_is_certain():
    assert bound((0, "calls", 900, 901), hellos=[10]) == ([0], ["calls"])


def test_order_holds_only_where_the_hello_passed_meanwhile():
    assert bound((0, "order", 10, 20), hellos=[10.1]) == ([0], ["order"])
    assert bound((0, "order", 10, 20), hellos=[200]) == ([None], [None])


def test_order_holds_where_nobody_looked_at_the_wire():
    assert bound((0, "order", 10, 20), hellos=[], watched=False) == ([0], ["order"])


def test_one_without_a_socket_gets_the_only_one_that_fits():
    assert bound((None, None, 10, 20), hellos=[10.1]) == ([0], ["time"])
    assert bound((None, None, 10, 20), hellos=[10.1, 500]) == ([0], ["time"])


@pytest.mark.parametrize(
    ("made", "hellos", "pids"),
    [
        ([(None, None, 10, 20)], [10.1, 10.2], None),  # two connections
        ([(None, None, 10, 20), (None, None, 10, 20)], [10.1], None),  # two handshakes
        ([(None, None, 10, 20)], [10.1], [7.0]),  # another process's
        ([(None, None, 10, 20)], [300], None),  # at another time
    ],
    ids=["two-connections", "two-handshakes", "foreign", "later"],
)
def test_where_more_than_one_fits_nothing_is_bound(made, hellos, pids):
    assert set(bound(*made, hellos=hellos, pids=pids)[0]) == {None}


def test_a_connection_that_is_taken_is_no_candidate():
    assert bound((0, "calls", 10, 20), (None, None, 10, 20), hellos=[10.1, 10.2]) == ([0, 1], ["calls", "time"])


def test_many_at_once_stay_unbound_without_much_work():
    count = 2000
    made = [(None, None, 10, 20)] * count
    assert set(bound(*made, hellos=list(np.linspace(10, 11, count)))[0]) == {None}


def test_tls_inside_tls_joins_the_outer_handshake():
    """A proxy's own TLS, then the one with the host through it: two handshakes by library on one socket."""
    made = calls((0, "calls", 10, 14), (0, "calls", 80, 90))
    joined = join(rows(1, [10.1]), made)
    assert list(joined["source"]) == ["both"]
    assert len(joined) == 1


def test_a_handshake_that_was_seen_from_its_middle_on_is_not_joined():
    joined = join(rows(1, [10.0]), calls((0, "calls", 10.3, 14)))
    assert list(joined["source"]) == ["wire"]


def test_nothing_to_join():
    shakes = rows(2, [1, 2])
    assert join(shakes, calls()) is shakes


# --- contexts and libraries ---------------------------------------------------------------------------------------


def test_a_context_belongs_to_the_next_handshake_of_its_thread():
    made = calls((0, "calls", 10, 14), (None, None, 30, 40), (1, "calls", 50, 60))
    made["tid"] = [100.0, 100.0, 101.0]
    built = frame(
        "contexts",
        5,
        {
            "pid": [100.0, 100.0, 100.0, 100.0, math.nan],
            "tid": [100.0, 100.0, 101.0, 101.0, math.nan],
            "at_ns": [1e6, 20e6, 20e6, 90e6, 91e6],
            "kind": ["context"] * 5,
        },
    )
    rows_ = built_for(built, made)["connection"].tolist()
    assert [None if math.isnan(row) else row for row in rows_] == [0, None, 1, None, None]


def test_processes_without_a_library_that_was_found():
    facts = [{"kind": "tls_library", "pid": 7, "path": "/lib/libssl.so.3", "library": "openssl", "version": "3.0.19", "how": "symbols", "cheap": True}]  # fmt: skip # noqa: E501
    shakes = rows(3, [1, 2, 3], [7.0, 8.0, math.nan])
    told = tls_libraries(facts, shakes)
    assert told[0] == {
        "pid": 7,
        "path": "/lib/libssl.so.3",
        "library": "openssl",
        "version": "3.0.19",
        "how": "symbols",
    }
    assert [(entry["pid"], entry["how"], entry["library"]) for entry in told[1:]] == [(8, "wire-only", None)]


def test_a_process_whose_handshakes_came_before_the_probes_is_told():
    facts = [{"pid": pid, "how": how} for pid, how in ((7, "symbols"), (8, "symbols"), (9, "wire-only"))]
    shakes = rows(4, [1, 2, 3, 4], [7.0, 8.0, 9.0, math.nan]).assign(outcome="completed")
    told = made_too_soon(facts, shakes, calls((0, "calls", 1, 2, 7)))
    assert [entry["pid"] for entry in told] == [8]
    assert made_too_soon(facts, shakes.assign(outcome="unfinished"), calls()) == []


def test_such_a_process_stands_in_the_tables_of_a_trace_that_looked_and_in_no_other():
    def told(builder):
        conversation(builder, 0).fact("tls_library", pid=100, how="symbols")
        return [entry["pid"] for entry in build(handshake_on_wire(builder, 1, 1).recording()).unobservable]

    assert told(RecordingBuilder()) == []
    assert told(call(RecordingBuilder(), 1, 2, tgid=9)) == [100]
    assert told(call(RecordingBuilder(), 1, 2)) == []


def test_contexts_and_calls_without_a_time_or_thread_are_nobodys():
    made = frame("contexts", 2, {"pid": [1, 1], "tid": [1, np.nan], "at_ns": [5.0, 6.0], "kind": ["context"] * 2})
    calls = frame("tls_calls", 2, {"pid": [1, 1], "tid": [1, 1], "started_ns": [7.0, np.nan], "connection": [3, 4]})
    assert built_for(made, calls)["connection"].tolist() == [3, pytest.approx(math.nan, nan_ok=True)]
