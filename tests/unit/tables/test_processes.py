# SPDX-License-Identifier: Apache-2.0
"""Processes from the kernel's records and from what user space looked up."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.testing import START_NS, RecordingBuilder

SEEN, FORK, EXEC, EXIT = 1, 2, 3, 4


def ns(ms):
    return START_NS + round(ms * 1e6)


def event(builder, kind, at, **members):
    return builder.record("process", time=ns(at), kind=kind, **({"tgid": 9, "parent": 1, "comm": "sh"} | members))


def processes(builder):
    return build(builder.recording()).processes.to_dict("records")


def test_a_life_from_fork_to_exit():
    builder = event(RecordingBuilder(), FORK, 1)
    event(builder, EXEC, 2, comm="curl", filename="/usr/bin/curl")
    event(builder, EXIT, 9, comm="curl", exit_code=22 << 8)
    (row,) = processes(builder)
    assert (row["pid"], row["ppid"], row["comm"], row["exe"]) == (9, 1, "curl", "/usr/bin/curl")
    assert (row["started_ns"], row["ended_ns"], row["exit_code"]) == (1e6, 9e6, 22)


@pytest.mark.parametrize(("status", "code"), [(0, 0), (9, 137), (139, 139), (256, 1)])
def test_exit_codes_are_those_of_a_shell(status, code):
    (row,) = processes(event(RecordingBuilder(), EXIT, 9, exit_code=status))
    assert row["exit_code"] == code


def test_a_pid_used_again_is_another_process():
    builder = event(RecordingBuilder(), FORK, 1)
    event(builder, EXIT, 2)
    event(builder, FORK, 3, comm="node")
    assert [(row["comm"], row["ended_ns"]) for row in processes(builder)] == [
        ("sh", 2e6),
        ("node", pytest.approx(np.nan, nan_ok=True)),
    ]


def test_what_was_looked_up_completes_the_last_life():
    builder = event(RecordingBuilder(), SEEN, 1, filename="python3")
    libraries = [{"name": "httpx", "version": "0.28", "evidence": "map"}]
    builder.fact("process", pid=9, exe="/opt/python3", argv=["python3", "app.py"], started_ns=ns(-500), pod=None)
    builder.fact("process", pid=9, started_ns=ns(-500), libraries=libraries, pod="shop/api-1")
    (row,) = processes(builder)
    assert (row["exe"], row["argv"], row["pod"]) == ("/opt/python3", ["python3", "app.py"], "shop/api-1")
    assert (row["libraries"], row["started_ns"]) == (libraries, -500e6)


def test_lives_and_facts_are_matched_from_the_end():
    builder = event(RecordingBuilder(), FORK, 1)
    event(builder, EXIT, 2)
    event(builder, FORK, 3)
    builder.fact("process", pid=9, exe="/bin/a", started_ns=ns(1)).fact(
        "process", pid=9, exe="/bin/b", started_ns=ns(3)
    )
    builder.fact("process", pid=4, exe="/bin/c")
    assert [(row["pid"], row["exe"]) for row in processes(builder)] == [(4, "/bin/c"), (9, "/bin/a"), (9, "/bin/b")]


def test_facts_of_wrong_types_are_not_known():
    builder = RecordingBuilder().fact("process", pid="9").fact("process", pid=True)
    builder.fact("process", pid=8, ppid="x", exe=7, argv="sh", libraries=["x"], started_ns=None, comm="")
    (row,) = processes(builder)
    assert [row[name] for name in ("exe", "argv", "libraries", "comm")] == [None] * 4
    assert np.isnan([row["ppid"], row["started_ns"], row["exit_code"]]).all()


def test_records_in_another_order_are_sorted_by_time():
    builder = event(RecordingBuilder(), EXIT, 9, exit_code=0)
    event(builder, FORK, 1)
    (row,) = processes(builder)
    assert (row["started_ns"], row["ended_ns"]) == (1e6, 9e6)


def parent_and_child():
    builder = event(RecordingBuilder(), FORK, 1, tgid=8)
    event(builder, EXEC, 2, tgid=8, filename="/usr/bin/gunicorn")
    event(builder, FORK, 3, parent=8)
    return builder


def by_pid(builder):
    return {row["pid"]: row for row in processes(builder)}


def test_a_process_that_was_forked_runs_the_program_of_its_parent():
    libraries = [{"name": "httpx", "version": None, "evidence": "mapped"}]
    builder = parent_and_child().fact("process", pid=8, exe="/opt/python3", argv=["g"], libraries=libraries)
    row = by_pid(builder)[9]
    assert (row["exe"], row["argv"], row["libraries"]) == ("/opt/python3", ["g"], libraries)


def test_a_grandchild_does_too():
    builder = event(parent_and_child(), FORK, 4, tgid=10, parent=9)
    assert by_pid(builder)[10]["exe"] == "/usr/bin/gunicorn"


def test_a_program_of_its_own_goes_before():
    builder = event(parent_and_child(), EXEC, 4, filename="/bin/true")
    assert by_pid(builder)[9]["exe"] == "/bin/true"


def test_what_the_parent_runs_later_is_not_the_childs():
    builder = event(parent_and_child(), EXEC, 5, tgid=8, filename="/bin/sleep")
    assert by_pid(builder)[9]["exe"] is None


def test_what_was_looked_up_of_the_child_goes_before():
    builder = parent_and_child().fact("process", pid=9, exe="/bin/worker")
    assert by_pid(builder)[9]["exe"] == "/bin/worker"
