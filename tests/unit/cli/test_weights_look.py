# SPDX-License-Identifier: Apache-2.0
"""What is started beside a trace: whom it watches, and what it could not see."""

from __future__ import annotations

import os
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("/proc is Linux's", allow_module_level=True)

from netdiag.cli.weights_look import Looks, Seen
from netdiag.processes import Target
from netdiag.tracing.request import TraceRequest


def test_named_processes_are_watched_at_once() -> None:
    looks = Looks(TraceRequest(target=Target(pids=(os.getpid(),))), until=None, gpu="off")
    looks.stop()
    assert looks.alone
    assert os.getpid() in {row["pid"] for row in looks.rows if row["kind"] == "thread"}
    assert looks.gpu_rows is None


def test_a_process_that_is_gone_leaves_nothing_to_show() -> None:
    looks = Looks(TraceRequest(target=Target(pids=(2**22,))), until="ready", gpu="off")
    assert looks.request.until_fd is not None
    looks.stop()
    assert not looks.alone


def test_what_could_not_be_seen_has_its_reason() -> None:
    looks = Looks(TraceRequest(command=("x",)), until=None, gpu="off")
    looks.stop()
    looks.rows = [{"kind": "denied", "pid": 7}, {"kind": "file", "cached_last": None}]
    told = dict(looks.missing())
    assert "7" in told["bytes read"]
    assert len(told) == 2


def test_what_stands_for_a_recording_knows_the_command_alone() -> None:
    seen = Seen(header={}, end=None, start_ns=0, command={"argv": ["x"], "exit_status": 0})
    assert seen.facts_of("command") == [{"argv": ["x"], "exit_status": 0}]
    assert seen.facts_of("cost") == []
