# SPDX-License-Identifier: Apache-2.0
"""The process that takes plaintext apart: it holds little, outlives Ctrl-C, leaves no core, and ends by itself."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from netdiag.recording.reader import read
from netdiag.recording.writer import RecordingWriter
from netdiag.testing import header, records_of
from netdiag.tracing.dissection import Dissection
from tests.fakes.http_traffic import pieces
from tests.fakes.plain import frames, layouts_frame, losses_frame, record
from tests.unit.tracing.test_dissect import TALK

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: nobody else may look into that process")


@pytest.fixture
def started(tmp_path):
    """Yield a started process, the recorder's end of its socket, and the recording's path."""
    path = tmp_path / "x.netdiag"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    RecordingWriter(fd, header(), shared=True)
    pipe = os.pipe()  # a descriptor that it must not keep
    dissection = Dissection(fd)
    theirs = socket.socket(fileno=os.dup(dissection.fileno()))
    dissection.handed_over()
    yield dissection, theirs, path
    dissection.close()
    theirs.close()
    for each in (fd, *pipe):
        os.close(each)


def test_requests_reach_the_recording(started):
    dissection, theirs, path = started
    theirs.sendall(layouts_frame() + frames(map(record, pieces(TALK))) + losses_frame())
    theirs.close()
    assert dissection.wait(20)
    assert len(records_of(read(path), "http_request")) == 3
    assert b"SECRET" not in path.read_bytes()


@needs_root
def test_it_holds_nothing_but_what_it_needs(started):
    dissection, theirs, _ = started
    theirs.sendall(layouts_frame())
    deadline = time.monotonic() + 10
    names = []
    while time.monotonic() < deadline:
        names = [str(link.readlink()) for link in Path(f"/proc/{dissection.pid}/fd").iterdir()]
        if len(names) == 5:
            break
        time.sleep(0.02)
    assert sorted(name.split(":")[0] for name in names)[:3] == sorted(["/dev/null"] * 3)
    assert sum(name.startswith("socket:") for name in names) == 1
    assert not any(name.startswith("pipe:") for name in names)
    assert len(names) == 5
    limits = Path(f"/proc/{dissection.pid}/limits").read_text()
    assert next(line for line in limits.splitlines() if line.startswith("Max core file size")).split()[4] == "0"


def test_signals_of_the_terminal_do_not_end_it(started):
    dissection, theirs, _ = started
    theirs.sendall(layouts_frame())
    time.sleep(0.3)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(dissection.pid, number)
    assert not dissection.wait(0.3)
    theirs.close()
    assert dissection.wait(20)


def test_a_process_that_hangs_is_ended(started):
    dissection, _, _ = started
    assert not dissection.wait(0.05)
    pid = dissection.pid
    dissection.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_waiting_twice_does_no_harm(started):
    dissection, theirs, _ = started
    theirs.close()
    assert dissection.wait(20)
    assert dissection.wait(0.1)
