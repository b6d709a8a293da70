# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math


def play(stage, times, gap=100.0, ended=True, **options):
    at = 0.0
    for number in range(times):
        pid = 100 + number
        row = stage.connection(at, pid=float(pid), closed_by="local", **options)
        end = (stage.end_of(row) + 10) * 1e6 if ended else math.nan
        stage.process(pid, ppid=9.0, exe="/usr/bin/curl", ended_ns=end, libraries=["curl"])
        at = stage.end_of(row) + gap


def test_process_per_call(stage):
    play(stage, 5)
    finding = stage.only("reuse.process-per-call")
    assert (finding.count, finding.of, finding.subject.pid) == (5, 5, None)
    assert finding.advice[0].applies_to == "curl"


def test_two_processes_are_no_habit(stage):
    play(stage, 2)
    assert stage.codes() == []


def test_processes_that_go_on_are_no_calls(stage):
    play(stage, 5, ended=False)
    assert stage.codes() == []


def test_processes_side_by_side_could_share_nothing(stage):
    play(stage, 5, gap=-40.0)
    assert stage.codes() == []


def test_connections_that_the_server_ended_are_not_theirs(stage):
    play(stage, 5)
    for connection in stage.connections:
        connection["closed_by"] = "remote"
    assert stage.codes() == []


def test_processes_with_much_to_say(stage):
    play(stage, 5, calls=[0, 10, 10, 10])
    assert stage.codes() == []
