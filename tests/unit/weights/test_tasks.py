# SPDX-License-Identifier: Apache-2.0
"""Threads by a made /proc: counters, what a thread waits in, children, ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from netdiag.weights.tasks import Process, counters, memory_of_pid

READ = "0"


def make(
    proc: Path, pid: int, *, state: str = "R", call: str = "running", minor: int = 0, rchar: int | None = 0
) -> Path:
    folder = proc / str(pid) / "task" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    rest = [state, "1", "1", "1", "0", "-1", "0", str(minor), "0", "2", "0", "5", "3", *["0"] * 40]
    (folder / "stat").write_text(f"{pid} (a (b) c) {' '.join(rest)}\n")
    (folder / "schedstat").write_text("1000 200 3\n")
    (folder / "syscall").write_text(call + "\n")
    (folder / "children").write_text("8 9 \n")
    if rchar is not None:
        (folder / "io").write_text(f"rchar: {rchar}\nwchar: 1\nsyscr: 4\nread_bytes: 8192\n")
    return folder


def test_counters_of_a_thread_with_brackets_in_its_name(tmp_path: Path) -> None:
    found = counters(make(tmp_path, 7, minor=12, rchar=100))
    assert found is not None
    values, state, comm = found
    assert (state, comm) == ("R", "a (b) c")
    assert values == {"minor": 12, "major": 2, "user": 5, "system": 3, "run": 1000, "ready": 200, "rchar": 100,
                      "syscr": 4, "read_bytes": 8192}  # fmt: skip


def test_a_thread_that_is_gone_has_none(tmp_path: Path) -> None:
    assert counters(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("state", "call", "into"),
    [
        ("D", "-1 0x7f 0x7f", "fault"),
        ("D", "running", "unknown"),
        ("S", "running", "asleep"),
        ("S", "202 0x1 0x0", "asleep"),
        ("S", "-1 0x7f 0x7f", "fault"),
    ],
)
def test_what_a_thread_waits_in(tmp_path: Path, state: str, call: str, into: str) -> None:
    process = Process(pid=7, proc=tmp_path)
    make(tmp_path, 7)
    process.look(1_000)
    make(tmp_path, 7, state=state, call=call)
    process.look(1_000_000)
    assert process.tasks[7].off == {into: 999_000}
    assert process.tasks[7].looks == 1


def test_what_grew_since_it_was_first_seen_counts_and_a_running_thread_waits_for_nothing(tmp_path: Path) -> None:
    process = Process(pid=7, proc=tmp_path)
    make(tmp_path, 7, minor=5, rchar=1000)
    process.look(0)
    make(tmp_path, 7, minor=25, rchar=5096)
    process.look(10)
    (row,) = process.rows()
    assert (row["minor"], row["rchar"], row["off"], row["looks"]) == (20, 4096, {}, 0)
    assert process.children == [8, 9]


def test_a_process_whose_input_may_not_be_seen_says_so(tmp_path: Path) -> None:
    process = Process(pid=7, proc=tmp_path)
    make(tmp_path, 7, rchar=None)
    process.look(0)
    rows = list(process.rows())
    assert rows[0]["rchar"] is None
    assert rows[-1] == {"kind": "denied", "pid": 7}


def test_an_ended_process_is_known_by_its_state_or_its_absence(tmp_path: Path) -> None:
    process = Process(pid=7, proc=tmp_path)
    make(tmp_path, 7, state="Z")
    process.look(0)
    assert process.ended
    gone = Process(pid=9, proc=tmp_path)
    gone.look(0)
    assert gone.ended


def test_memory_is_read_by_kind(tmp_path: Path) -> None:
    text = "aa-bb ---p 00000000 00:00 0 [rollup]\nRss: 100 kB\nAnonymous: 80 kB\nAnonHugePages: 40 kB\n"
    (tmp_path / "smaps_rollup").write_text(text)
    found = memory_of_pid(tmp_path)
    assert found is not None
    assert (found["anonymous"], found["anonymous_huge"], found["file_huge"]) == (80 << 10, 40 << 10, 0)
    (tmp_path / "smaps_rollup").write_text("")
    assert memory_of_pid(tmp_path) is None
