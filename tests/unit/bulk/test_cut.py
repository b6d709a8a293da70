# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from netdiag import tables
from netdiag.bulk import cut
from netdiag.recording.reader import Recording
from tests.unit.bulk import longs


def _cookies(recording: Recording, stream: str) -> list[int]:
    return [cookie for run in recording.runs.get(stream, ()) for cookie in run["cookie"].tolist()]


@pytest.mark.parametrize("size", [1, 30, 60, 10_000])
def test_each_record_is_in_one_part_with_its_whole_connection(size):
    recording = longs.recording()
    made = cut.parts_of(recording, size)
    parts = [cut.part(made, number) for number in range(made.count)]
    for stream in ("tcp", "tcp_io"):
        there = [_cookies(one, stream) for one in parts]
        together = list(chain.from_iterable(there))
        assert sorted(together) == sorted(_cookies(recording, stream))
        assert sum(len(set(mine)) for mine in there) == len(set(together))
    assert len(parts) == {1: 8, 30: 7, 60: 4, 10_000: 1}[size]


def test_what_is_long():
    assert not cut.is_long(longs.recording())


def test_a_long_capture_is_read_by_its_own_way(monkeypatch):
    monkeypatch.setattr(cut, "LONG", 10)
    recording = longs.recording()
    assert cut.is_long(recording)
    recording.header["tier"] = "capture"
    assert not cut.is_long(recording)


def test_facts_go_with_their_connection_and_process():
    recording = longs.recording()
    recording.facts.extend(
        [
            {"kind": "conversation", "conversation": 5, "cookie": 1, "pid": 200},
            {"kind": "conversation", "conversation": 6, "cookie": 0, "pid": 100},
            {"kind": "strings", "first": 1, "values": ["GET"]},
            {"kind": "packet", "data": ""},
        ]
    )
    made = cut.parts_of(recording, 60)
    told = [cut.part(made, number).facts for number in range(made.count)]
    with_five = [place for place, facts in enumerate(told) if any(one.get("conversation") == 5 for one in facts)]
    assert with_five == [made.cookies[1]]
    # of a process in several parts no connection is known: a part of its own, so that none is bound by chance
    with_six = [place for place, facts in enumerate(told) if any(one.get("conversation") == 6 for one in facts)]
    assert with_six == [made.count - 1]
    assert not _cookies(cut.part(made, made.count - 1), "tcp")
    assert all(any(one["kind"] == "strings" for one in facts) for facts in told)
    assert not any(one["kind"] == "packet" for facts in told for one in facts)


def test_the_rest_has_processes_and_no_connections():
    rest = cut.rest_of(longs.recording())
    assert not _cookies(rest, "tcp_io")
    assert len(tables.build(rest).processes) == 2


def test_a_stretch_is_what_a_trace_then_would_have_seen():
    recording = longs.recording()
    whole = tables.build(recording)
    start = recording.start_ns
    plain = whole.connections["cookie"].to_numpy()
    part = tables.build(cut.stretch(recording, start + 150_000_000, start + 300_000_000, plain))
    began = whole.requests["began_ns"].to_numpy()
    ended = whole.requests["ended_ns"].to_numpy()
    inside = (began >= 150e6) & (ended < 300e6)
    assert set(np.round(began[inside])) <= set(np.round(part.requests["began_ns"].to_numpy()))
    assert part.requests["began_ns"].min() >= 150e6
    assert part.requests["ended_ns"].max() < 300e6
    assert part.connections["preexisting"].all()
    # what ended later had not ended then
    assert set(part.connections["close"].dropna()) <= {"open"}
    assert part.span_ms == pytest.approx(300)


def test_a_stretch_from_the_beginning_has_older_connections_only_where_the_trace_had():
    recording = longs.recording()
    start = recording.start_ns
    part = tables.build(cut.stretch(recording, start, start + 100_000_000))
    assert not part.connections["preexisting"].any()
    assert (part.connections["outcome"] == "refused").sum() == 1
    assert part.connections["bytes_sent"].max() < tables.build(recording).connections["bytes_sent"].max()
