# SPDX-License-Identifier: Apache-2.0
"""Courses of parts become one: rows are numbered as among all connections, and large tables keep their rows."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables.columns import Columns
from netdiag.tables.connections import connections, sockets
from netdiag.tables.course import Course, course, gather, moved
from netdiag.tables.parts import Part
from netdiag.testing import RecordingBuilder


def part(*, first_port: int, connections_: int, dport: int = 8080) -> Part:
    """Return some connections in the clear, with two calls each."""
    builder = RecordingBuilder()
    builder.process(100)
    for number in range(connections_):
        at = 10.0 * number
        made = [("send", at + 1, 100), ("receive", at + 3, 500), ("send", at + 5, 100), ("receive", at + 8, 500)]
        builder.connection(
            made, opened=at, closed=("local", at + 9), tgid=100, tid=100, sport=first_port + number, dport=dport
        )
    recording = builder.recording()
    start = recording.start_ns
    told = {name: recording.records(name) for name in ("tcp", "tcp_io")}
    tcp, calls = (None if rows is None else Columns(rows, start) for rows in told.values())
    assert tcp is not None
    found = sockets(tcp)
    ends = connections(found, hz=1000.0, lossy=False)
    return Part(first=0, sockets=found, ends=ends, said={}, io=calls, headers=None)


def test_calls_in_the_clear_are_asked_and_counted():
    one = course(part(first_port=40_000, connections_=2))
    assert one.counted.tolist() == [True, True]
    assert one.asked["connection"].tolist() == [0, 0, 1, 1]
    assert one.ends["turns"].tolist() == [2.0, 2.0]


def test_questions_of_names_are_no_requests():
    one = course(part(first_port=40_000, connections_=1, dport=53))
    assert not len(one.asked)


@pytest.fixture
def two() -> list[Course]:
    return [course(part(first_port=40_000, connections_=2)), course(part(first_port=50_000, connections_=3))]


def test_rows_of_a_moved_part_name_connections_among_all(two: list[Course]):
    later = moved(two[1], 2)
    assert later.flights is None
    assert later.turns["connection"].unique().tolist() == [2, 3, 4]
    assert two[1].turns["connection"].unique().tolist() == [0, 1, 2]


def test_gathered_parts_hold_all_rows(two: list[Course]):
    together = gather([moved(two[0], 0), moved(two[1], 2)])
    assert len(together.ends) == 5
    assert together.counted.tolist() == [True] * 5
    for name in ("bursts", "turns", "asked"):
        rows = [getattr(one, name) for one in two]
        found = getattr(together, name)
        assert len(found) == sum(map(len, rows)) > 0
        assert np.unique(found["connection"]).tolist() == [0, 1, 2, 3, 4]
    assert sorted(together.bursts["bytes"]) == sorted([*two[0].bursts["bytes"], *two[1].bursts["bytes"]])
