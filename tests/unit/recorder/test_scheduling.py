# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from netdiag.recorder import scheduling
from netdiag.recorder.scheduling import Scheduling


class Writer:
    """Takes facts as the writer of a recording does."""

    def __init__(self) -> None:
        self.facts: list[dict[str, Any]] = []

    def fact(self, kind, members):
        assert kind == "scheduling"
        self.facts.append(members)


class Machine:
    """A made-up /proc and /sys/fs/cgroup."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.cgroups = folder / "proc", folder / "cgroup"
        self.now = 0
        self.writer = Writer()
        writer: Any = self.writer
        self.looks = Scheduling(writer, proc=str(self.proc), cgroups=str(self.cgroups), clock=lambda: self.now)

    def thread(self, pid, tid, run_ms, wait_ms):
        folder = self.proc / str(pid) / "task" / str(tid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{run_ms * 1_000_000} {wait_ms * 1_000_000} 7\n")

    def gone(self, pid, tid):
        (self.proc / str(pid) / "task" / str(tid) / "schedstat").unlink()
        (self.proc / str(pid) / "task" / str(tid)).rmdir()

    def cgroup(self, pid, text):
        (self.proc / str(pid)).mkdir(parents=True, exist_ok=True)
        (self.proc / str(pid) / "cgroup").write_text(text)

    def stat(self, path, text):
        (self.cgroups / path).mkdir(parents=True, exist_ok=True)
        (self.cgroups / path / "cpu.stat").write_text(text)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_threads_are_summed_and_their_time_stays_when_they_end(machine):
    machine.thread(5, 5, 10, 1)
    machine.thread(5, 6, 20, 2)
    machine.looks.meet([5])
    machine.thread(5, 5, 15, 4)
    machine.gone(5, 6)
    machine.now = 9
    machine.looks.tick()
    first, second = machine.writer.facts
    assert (first["run_ms"], first["wait_ms"], first["throttled_ms"], first["periods"]) == (30, 3, None, None)
    assert (second["run_ms"], second["wait_ms"], second["at_ns"], second["pid"]) == (35, 6, 9, 5)


def test_threads_that_waited_most_since_the_look_before_are_named(machine, monkeypatch):
    monkeypatch.setattr(scheduling, "_MAX_WAITS", 2)
    for tid in range(5, 10):
        machine.thread(5, tid, 10, 100)
    machine.looks.meet([5])
    for tid, wait_ms in ((5, 100), (6, 130), (7, 102), (8, 101), (9, 140)):
        machine.thread(5, tid, 10, wait_ms)
    machine.looks.tick()
    machine.looks.tick()
    assert [fact["waits"] for fact in machine.writer.facts][1:] == [[[9, 40.0], [6, 30.0]]]


def test_a_thread_number_that_is_used_again_counts_from_zero(machine):
    machine.thread(5, 5, 10, 1)
    machine.looks.meet([5])
    machine.thread(5, 5, 2, 1)
    machine.looks.tick()
    assert machine.writer.facts[-1]["run_ms"] == 12


def test_nothing_is_written_where_nothing_changed(machine):
    machine.thread(5, 5, 10, 1)
    machine.looks.meet([5])
    machine.looks.tick()
    machine.looks.tick()
    assert len(machine.writer.facts) == 1


def test_a_process_that_is_gone_is_forgotten(machine):
    machine.thread(5, 5, 10, 1)
    machine.looks.meet([5])
    machine.gone(5, 5)
    machine.looks.tick()
    machine.thread(5, 5, 20, 1)
    machine.looks.tick()
    assert len(machine.writer.facts) == 1


@pytest.mark.parametrize(
    ("line", "stats", "throttled"),
    [
        ("0::/a/b\n", {"a/b": "nr_periods 9\nnr_throttled 3\nthrottled_usec 2500\n"}, (2.5, 3)),
        (
            "0::/a/b\n",
            {"unified/a": "nr_periods 9\nnr_throttled 3\nthrottled_usec 2500\n", "unified/a/b": "x\n"},
            (2.5, 3),
        ),
        (
            "0::/a/b\n",
            {
                "a": "nr_periods 9\nnr_throttled 4\nthrottled_usec 3000\n",
                "a/b": "nr_periods 9\nnr_throttled 3\nthrottled_usec 2500\n",
            },
            (3.0, 4),
        ),
        ("3:cpu,cpuacct:/a\n", {"cpu,cpuacct/a": "nr_periods 2\nnr_throttled 1\nthrottled_time 4000000\n"}, (4.0, 1)),
        ("1:cpu:/a\n", {"cpu/a": "nr_periods 2\nnr_throttled 1\nthrottled_time 4000000\n"}, (4.0, 1)),
        ("0::/a\n", {"a": "usage_usec 12\n"}, (None, None)),
        ("0::/a\n", {"a": "nr_periods x\n"}, (None, None)),
        ("0::/../../a\n", {"a": "nr_periods 9\nnr_throttled 3\nthrottled_usec 2500\n"}, (None, None)),
        ("", {}, (None, None)),
    ],
)
def test_limits_of_cgroups(machine, line, stats, throttled):
    machine.thread(5, 5, 10, 1)
    machine.cgroup(5, line)
    for path, text in stats.items():
        machine.stat(path, text)
    machine.looks.meet([5])
    (fact,) = machine.writer.facts
    assert (fact["throttled_ms"], fact["periods"]) == throttled


def test_a_process_that_runs_another_program_may_be_in_another_cgroup(machine):
    machine.thread(5, 5, 10, 1)
    machine.looks.meet([5])
    machine.cgroup(5, "0::/a\n")
    machine.stat("a", "nr_periods 9\nnr_throttled 3\nthrottled_usec 2500\n")
    machine.looks.meet([5])
    machine.looks.tick()
    assert [fact["throttled_ms"] for fact in machine.writer.facts] == [None, 2.5]


def test_only_so_many_processes_and_threads_are_looked_at(machine, monkeypatch):
    monkeypatch.setattr(scheduling, "_MAX_PROCESSES", 2)
    monkeypatch.setattr(scheduling, "_MAX_THREADS", 3)
    for pid in (1, 2, 3):
        for tid in range(10):
            machine.thread(pid, 100 * pid + tid, 1, 0)
    machine.looks.meet([1, 2, 3])
    assert [(fact["pid"], fact["run_ms"]) for fact in machine.writer.facts] == [(1, 3), (2, 3)]


def test_this_machine_counts_this_process():
    writer: Any = Writer()
    Scheduling(writer).meet([os.getpid()])
    (fact,) = writer.facts
    assert fact["run_ms"] > 0
