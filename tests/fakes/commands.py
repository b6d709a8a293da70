# SPDX-License-Identifier: Apache-2.0
"""Call the command line in this process, and recordings for it to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from netdiag.cli.main import run
from netdiag.testing import RecordingBuilder


class Called:
    """How one command line ended."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


def call(capsys: pytest.CaptureFixture[str], *args: object) -> Called:
    """Run `netdiag ARGS…` and return its exit status and what it wrote."""
    capsys.readouterr()
    status = run([str(arg) for arg in args])
    captured = capsys.readouterr()
    return Called(status, captured.out, captured.err)


def builder(calls: int = 6) -> RecordingBuilder:
    """Return a recording of a program that opens a connection for each of its calls."""
    made = RecordingBuilder(command={"argv": ["python3", "app.py"]}).process(100)
    for number in range(calls):
        at = 100.0 * number
        exchange = [("send", at + 1, 200), ("receive", at + 41, 900)]
        made.connection(exchange, opened=at, closed=("local", at + 52))
    return made.fact("command", argv=["python3", "app.py"], exit_status=0, pid=100)


def recording_file(folder: Path, calls: int = 6) -> Path:
    """Write such a recording and return its path."""
    path = folder / "calls.netdiag"
    path.write_bytes(builder(calls).to_bytes(end="command-exited"))
    return path
