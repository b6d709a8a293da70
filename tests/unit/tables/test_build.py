# SPDX-License-Identifier: Apache-2.0
"""Whole recordings become tables: pure, bounded, and honest about what is missing."""

from __future__ import annotations

import dataclasses
import time

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest

from netdiag.recording.reader import Recording, dtype_of, read
from netdiag.tables import COLUMNS, Loss, Tables, build
from netdiag.tables.codes import TcpFlags
from netdiag.testing import START_NS, RecordingBuilder, header, layout, tables

STREAMS = ("tcp", "tcp_io", "process", "tls_record")


def sample():
    builder = RecordingBuilder().process(100)
    builder.connection([("send", 1, 200), ("receive", 101, 1000)], closed=("remote", 3101))
    return builder.fact("loss", probe="tcp", seen=1, lost=0)


def same(left: Tables, right: Tables) -> None:
    for field in dataclasses.fields(Tables):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if isinstance(one, pd.DataFrame):
            pd.testing.assert_frame_equal(one, other)
        else:
            assert one == other


def test_the_same_recording_gives_the_same_tables():
    data = sample().to_bytes()
    same(build(read(data)), build(read(data)))


def test_every_table_has_its_columns_and_types():
    made = build(sample().recording())
    for name, columns in COLUMNS.items():
        assert {column: str(kind) for column, kind in getattr(made, name).dtypes.items()} == dict(columns), name


def test_length_losses_and_end():
    made = build(sample().recording(end_at=1234))
    assert (made.span_ms, made.losses, made.truncated) == (1234, (Loss(probe="tcp", seen=1, lost=0),), False)


def test_a_recording_that_was_cut_off_ends_with_its_last_record():
    made = build(RecordingBuilder().connection([("send", 1, 5)], closed=("local", 30)).recording(end=None))
    assert made.truncated
    assert made.span_ms == pytest.approx(30.01)
    assert Loss(probe="tcp", seen=1, lost=None) in made.losses
    assert not made.lossy


def test_the_last_word_on_losses_counts():
    builder = RecordingBuilder().fact("loss", probe="tcp", seen=1, lost=0).fact("loss", probe="tcp", seen=9, lost=2)
    builder.fact("loss", probe=7, seen=1, lost=1).fact("loss", probe="x", seen="1", lost=1)
    made = build(builder.recording())
    assert (made.losses, made.lossy) == ((Loss(probe="tcp", seen=9, lost=2),), True)


def test_a_recording_without_streams_gives_empty_tables():
    made = build(Recording(header=header()))
    assert all(len(getattr(made, name)) == 0 for name in COLUMNS)
    assert (made.span_ms, made.losses, made.truncated) == (0, (), True)


def test_without_the_stream_of_calls_nothing_is_said_about_them():
    recording = sample().recording()
    bare = dataclasses.replace(recording, layouts={"tcp": recording.layouts["tcp"]})
    row = build(bare).connections.iloc[0]
    assert row["encrypted"] is None
    assert np.isnan([row["requests"], row["turns"]]).all()


@pytest.mark.fuzz
@hypothesis.given(st.data())
def test_any_records_give_tables(data):
    runs = {}
    for name in STREAMS:
        kind = dtype_of(layout(name))
        count = data.draw(st.integers(0, 12), label=name)
        raw = data.draw(st.binary(min_size=count * kind.itemsize, max_size=count * kind.itemsize))
        rows = np.frombuffer(bytearray(raw), kind)
        for member, choices in (("cookie", 3), ("kind", 6), ("direction", 4)):
            if member in (kind.names or ()):
                rows[member] %= choices
        runs[name] = [rows]
    recording = Recording(header=header(), layouts={name: layout(name) for name in STREAMS}, runs=runs)
    made = build(recording)
    for name, columns in COLUMNS.items():
        assert list(getattr(made, name)) == list(columns)
    assert not made.connections["outcome"].isna().any()


def crowd(connections, bursts):
    """Return a recording of many connections with many bursts, as the reader would give it."""
    draw = np.random.default_rng(1)
    tcp = np.zeros(connections, dtype_of(layout("tcp")))
    tcp["cookie"] = np.arange(1, connections + 1)
    tcp["opened"] = START_NS + np.arange(connections) * 1000
    tcp["time"] = tcp["closing"] = START_NS + 10**10
    tcp["kind"], tcp["role"], tcp["closed_by"], tcp["close"], tcp["dport"], tcp["sport"] = 3, 1, 1, 1, 80, 4000
    calls = np.zeros(bursts, dtype_of(layout("tcp_io")))
    calls["cookie"] = draw.integers(1, connections + 1, bursts)
    calls["began"] = calls["ended"] = calls["time"] = START_NS + draw.integers(1, 10**10, bursts)
    calls["direction"] = draw.integers(1, 3, bursts)
    calls["bytes"] = calls["first_bytes"] = draw.integers(100, 2000, bursts)
    calls["calls"] = 1
    runs = {"tcp": [tcp], "tcp_io": [calls]}
    return Recording(header=header(), layouts={name: layout(name) for name in runs}, runs=runs)


@pytest.mark.slow
def test_the_work_grows_with_the_recording_and_no_faster():
    def cost(connections, bursts):
        recording = crowd(connections, bursts)
        return min(timed(recording) for _ in range(3))

    def timed(recording):
        before = time.process_time()
        build(recording)
        return time.process_time() - before

    assert cost(2_000, 200_000) < 25 * cost(200, 20_000)


def test_builders_give_what_build_gives():
    assert list(tables(connections=[{}]).connections) == list(COLUMNS["connections"])


def test_a_connection_that_sent_nothing_had_no_requests():
    spare = build(RecordingBuilder().connection([], closed=("local", 30)).recording()).connections.iloc[0]
    assert (spare["bytes_sent"], spare["requests"]) == (0, 0)


def test_nobody_knows_what_an_older_connection_had_sent():
    builder = RecordingBuilder().connection([], closed=("local", 30), flags=int(TcpFlags.PREEXISTING))
    assert np.isnan(build(builder.recording()).connections.iloc[0]["requests"])
