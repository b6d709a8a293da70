# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from netdiag import analysis, bulk, tables
from netdiag.bulk import cut, judge, pack
from netdiag.tables.schema import COLUMNS
from tests.unit.bulk import longs


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Take small recordings for long ones."""
    monkeypatch.setattr(cut, "parts_of", lambda recording, size=60, real=cut.parts_of: real(recording, size))
    if "two_at_a_time" not in request.node.name:
        monkeypatch.setattr(sys.modules["netdiag.bulk.build"], "_each", lambda work, items, _: map(work, items))


def _whole(recording: Any) -> bulk.Whole:
    return bulk.build(recording, analysis.Options(), lambda *_: None)


def _cells(values: Any) -> Iterator[Any]:
    for value in values.tolist():
        yield None if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("end", ["command ended", None])
def test_rows_are_those_of_the_whole(end):
    want = tables.build(longs.recording(end=end))
    got = _whole(longs.recording(end=end)).tables
    for table in pack.PACKED:
        one, two = getattr(want, table).reset_index(drop=True), pack.unpack(table, getattr(got, table))
        assert len(one) == len(two)
        for name in COLUMNS[table]:
            for first, second in zip(_cells(one[name]), _cells(two[name]), strict=True):
                near = isinstance(first, float) and second == pytest.approx(first, abs=1e-9)
                assert near or first == second, (table, name, first, second)
    assert got.span_ms == want.span_ms
    assert got.losses == want.losses
    assert got.truncated == want.truncated
    assert got.processes.equals(want.processes)


def test_findings_of_a_recording_that_is_one_stretch_are_those_of_the_whole():
    want = analysis.examine(tables.build(longs.recording()))
    got = _whole(longs.recording())
    assert got.findings == want.findings
    assert [one.requests for one in got.stretches] == [len(tables.build(longs.recording()).requests)]


def test_parts_are_made_two_at_a_time_and_progress_is_told():
    told: list[tuple[str, int, int]] = []
    bulk.build(longs.recording(), analysis.Options(), lambda *words: told.append(words))
    parts = [words for words in told if words[0] == "parts of the recording"]
    assert parts == [("parts of the recording", number, 4) for number in range(1, 5)]
    assert told[-1] == ("stretches judged", 1, 1)


def test_the_picture_has_every_connection_that_carried_something():
    got = _whole(longs.recording())
    assert {name for name, told in got.activity.items() if told} == {f"c{n + 1}" for n in range(8)} - _refused()


def _refused() -> set[str]:
    ends = tables.build(longs.recording()).connections
    return set(ends["id"][ends["outcome"] == "refused"])


def test_a_fault_late_in_the_trace_is_found_and_its_evidence_named_as_in_the_whole(monkeypatch):
    monkeypatch.setattr(judge, "CALLS", 30)
    monkeypatch.setattr(judge.choose, "__defaults__", (30,))
    recording = longs.recording(calls=40, slow_from=500)
    want = tables.build(longs.recording(calls=40, slow_from=500))
    got = bulk.build(recording, analysis.Options(slow_ms=20), lambda *_: None)
    assert len(got.stretches) == 2
    assert got.stretches[1].began_ms > 400
    slow = [one for one in got.findings if one.code == "http.slow-server"]
    assert slow, [one.code for one in got.findings]
    named = [evidence.id for evidence in slow[0].evidence if evidence.kind == "request" and evidence.id]
    took = want.requests.set_index("id")["wait_ms"]
    assert named
    assert all(took[name] > 20 for name in named)
