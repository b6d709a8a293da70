# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np

from netdiag import tables
from netdiag.testing import RecordingBuilder
from netdiag.tui.window import Window


def recording(count: int):
    builder = RecordingBuilder()
    for at in range(count):
        builder.connection([("send", 10 * at + 1, 100), ("receive", 10 * at + 2, 900)], opened=10 * at)
    return builder.recording(end_at=10 * count)


def test_a_small_recording_is_kept_whole():
    window = Window(100)
    window.add(recording(5))
    assert not window.partial
    assert window.records == 15
    end = window.recording().end
    assert end is not None
    assert end["exit_reason"] == "command ended"


def test_of_a_large_one_the_newest_whole_connections_stay():
    window = Window(60)
    window.add(recording(50))
    kept = window.recording()
    assert window.partial
    opened, moved = kept.records("tcp"), kept.records("tcp_io")
    assert opened is not None
    assert moved is not None
    assert sorted(opened["cookie"]) == list(range(41, 51))
    assert np.bincount(moved["cookie"])[41:].tolist() == [2] * 10


def test_what_has_gone_does_not_come_back():
    window = Window(60)
    window.add(recording(50))
    window.add(RecordingBuilder().connection([("send", 1, 5)] * 70, cookie=3).recording(end=None))
    moved = window.recording().records("tcp_io")
    assert moved is not None
    assert 3 not in moved["cookie"]


def test_one_that_grows_ends_with_its_newest_record():
    window = Window(100)
    window.add(RecordingBuilder().connection([("send", 7, 5)]).recording(end=None))
    window._truncated = (None, None)
    shown = window.recording()
    assert shown.end is not None
    assert shown.end["exit_reason"] == "live"
    assert shown.end_ns is not None
    assert shown.end_ns - shown.start_ns >= 7e6


def busy(connections: int, calls: int):
    """Return connections that carry more than fits, side by side."""
    builder = RecordingBuilder()
    builder.process(100)
    for number in range(connections):
        made = [
            one
            for at in range(calls)
            for one in (("send", 30 * at + number, 150), ("receive", 30 * at + number + 5, 900))
        ]
        builder.connection(made, opened=number / 10)
        builder.wire(number + 1, "send", number, 0, first=2)
    return builder.recording(end_at=30 * calls)


def test_where_no_connection_fits_the_newest_stretch_of_time_is_kept():
    window = Window(100)
    whole = busy(3, 200)
    window.add(whole)
    assert window.partial
    built = tables.build(window.recording())
    assert len(built.connections) == 3
    assert built.connections["preexisting"].all()
    assert 15 <= len(built.requests) <= 30
    assert built.requests["began_ns"].min() > 5000e6
    assert (built.requests["wait_ms"].round(1) == 5.0).all()


def test_a_stretch_moves_on_with_what_comes():
    window = Window(100)
    whole = busy(2, 200)
    half = {name: [run[: len(run) // 2] for run in runs] for name, runs in whole.runs.items()}
    rest = {name: [run[len(run) // 2 :] for run in runs] for name, runs in whole.runs.items()}
    window.add(replace(whole, runs=half, end=None))
    window.add(replace(whole, runs=rest))
    assert window.records <= 100
    built = tables.build(window.recording())
    assert len(built.connections) == 2
    assert built.requests["began_ns"].min() > 5000e6
