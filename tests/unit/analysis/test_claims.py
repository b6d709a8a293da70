# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.analysis.case import Options, prepare
from netdiag.analysis.claims import at_exit, at_once, cluster, complete, learned, prompt_local, soon_remote, tolerance


def group(stage):
    return prepare(stage.tables(), Options()).groups[0]


def links(stage):
    return group(stage).links


def idle(link):
    return link.idle_before_close_ms


def test_at_once_is_within_the_floor(stage):
    stage.connection(0, closed_by="local", idle=5.0)
    stage.connection(1, closed_by="local", idle=5.2)
    stage.connection(2)
    assert [at_once(link) for link in links(stage)] == [True, False, False]


def test_an_answer_with_unread_bytes_is_not_complete(stage):
    stage.connection(0, closed_by="local")
    stage.connection(1, closed_by="local", unread_close=True)
    stage.connection(2, closed_by="local", unread=5.0)
    stage.connection(3, closed_by="local", unanswered=True)
    assert [complete(link) for link in links(stage)] == [True, False, False, False]


def test_who_closed_soon(stage):
    stage.connection(0, closed_by="local", idle=300)
    stage.connection(1, closed_by="local", idle=500)
    stage.connection(2, closed_by="remote", idle=40)
    stage.connection(3, closed_by="remote", idle=60)
    stage.connection(4, closed_by="remote", idle=1, close="rst")
    assert [prompt_local(link) for link in links(stage)] == [True, False, False, False, False]
    assert [soon_remote(link) for link in links(stage)] == [False, False, True, False, False]


def test_the_end_of_the_program_is_no_habit(stage):
    stage.process(1, ended_ns=2000e6)
    stage.connection(0, closed_by="local", idle=1900)
    stage.connection(1, closed_by="local", idle=100)
    found = group(stage)
    assert [at_exit(link, found, 60e9) for link in found.links] == [True, False]


def test_the_end_of_the_trace_counts_where_the_program_still_runs(stage):
    stage.connection(0, closed_by="local", idle=1900)
    found = group(stage)
    assert at_exit(found.links[0], found, found.links[0].closing_ns + 1e6)
    assert not at_exit(found.links[0], found, 60e9)


def test_the_largest_cluster(stage):
    for at, pause in enumerate((800, 820, 1500, 840, 5000)):
        stage.connection(at, closed_by="remote", idle=pause)
    assert [idle(link) for link in cluster(links(stage), idle)] == [800, 820, 840]
    assert cluster([], idle) == []


@pytest.mark.parametrize(("value", "expected"), [(100, 60), (1200, 60), (10_000, 500)])
def test_tolerance(value, expected):
    assert tolerance(value) == expected


def test_learned_numbers_are_seconds():
    number = learned("idle_timeout", [800.0, 810.0, 900.0])
    assert (number.value, number.low, number.high, number.unit) == (0.81, 0.8, 0.9, "s")
