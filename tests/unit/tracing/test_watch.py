# SPDX-License-Identifier: Apache-2.0
"""What ends a trace, told by a recorder and a command that do as they are told."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("traces on Linux only", allow_module_level=True)

from netdiag.tracing.files import RecordingFile
from netdiag.tracing.request import ExitReason, Progress, TraceRequest, TraceResult
from netdiag.tracing.signals import Signals
from netdiag.tracing.watch import Attached, Watch


class Pipe:
    """Something to wait for."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def fileno(self) -> int:
        return self.reader

    def ring(self) -> None:
        os.write(self.writer, b"x")

    def close(self) -> None:
        os.close(self.reader)
        os.close(self.writer)


class Recorder(Pipe):
    """Says what it was told to, then hangs up."""

    def __init__(self, *, answers: bool = True) -> None:
        super().__init__()
        self.answers = answers
        self.messages: list[dict[str, Any]] = []
        self.stopped: tuple[str, int | None] | None = None

    def heard(self) -> dict[str, Any] | None:
        os.read(self.reader, 1)
        if not self.messages:
            raise EOFError
        message = self.messages.pop(0)
        if self.messages:
            self.ring()
        return message or None

    def stop(self, reason: str, status: int | None, *, timeout_s: float, others: object = None) -> bool:
        assert timeout_s > 0
        assert others is None
        self.stopped = (reason, status)
        return self.answers


class Command(Pipe):
    """Ends with a status once it was rung."""

    pid = 4711

    def __init__(self, failure: str | None = None) -> None:
        super().__init__()
        self.failure = failure
        self.result: int | None = None

    def release(self) -> str | None:
        return self.failure

    def end(self, status: int) -> None:
        self.result = status
        self.ring()

    def status(self) -> int | None:
        return self.result


class Scene:
    """One trace with everything that it hears and says."""

    def __init__(self, folder: Path, recorder: Recorder | None = None) -> None:
        self.recorder = recorder or Recorder()
        self.signals = Signals(also=(signal.SIGQUIT,))
        self.path = folder / "x.netdiag"
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        self.file = RecordingFile(self.path, fd, temporary=True)
        self.told: list[Progress] = []
        self.notices: list[str] = []

    def run(
        self, *, command: Any = None, argv: Any = (), pids: Any = (), attached: bool = True, **request: Any
    ) -> TraceResult:
        recorder: Any = self.recorder
        hold = Attached(recorder=recorder, file=self.file, coverage={"tier": "x"}) if attached else None
        fds = [pipe.fileno() for pipe in pids]
        wanted = TraceRequest(command=argv, **request)
        return Watch(wanted, hold, command, self.signals, fds, self.told.append, self.notices.append).run()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    with made.signals:
        yield made
    made.recorder.close()


def send(*numbers: int) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


def test_the_end_of_the_command_ends_it_with_its_status(scene):
    command = Command()
    command.end(7)
    result = scene.run(command=command)
    assert (result.exit_reason, result.command_status) == (ExitReason.COMMAND_EXITED, 7)
    assert scene.recorder.stopped == ("command-exited", 7)
    assert [now.state for now in scene.told] == ["armed", "stopping"]
    assert {now.command_pid for now in scene.told} == {4711}
    command.close()


def test_the_first_ctrl_c_and_a_quit_are_the_commands(scene):
    command = Command()
    send(signal.SIGINT, signal.SIGQUIT, signal.SIGQUIT)
    command.end(130)
    assert scene.run(command=command).exit_reason is ExitReason.COMMAND_EXITED
    command.close()


@pytest.mark.parametrize("numbers", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,), (signal.SIGHUP,)])
def test_a_second_ctrl_c_or_a_request_to_end_ends_it_at_once(scene, numbers):
    command = Command()
    send(*numbers)
    result = scene.run(command=command)
    assert (result.exit_reason, result.command_status) == (ExitReason.INTERRUPTED, None)
    command.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_without_a_command_the_first_signal_ends_it(scene, number):
    send(number)
    assert scene.run().exit_reason is ExitReason.INTERRUPTED


def test_the_duration_ends_it(scene):
    result = scene.run(duration_s=0.05)
    assert (result.exit_reason, result.recording, result.coverage) == (ExitReason.DURATION, scene.path, {"tier": "x"})
    assert result.duration_s >= 0.05


def test_the_end_of_all_processes_ends_it(scene):
    pids = [Pipe(), Pipe()]
    pids[0].ring()
    assert scene.run(pids=pids, duration_s=0.05).exit_reason is ExitReason.DURATION
    scene.file.fd = os.open(scene.path, os.O_WRONLY)
    pids[1].ring()
    assert scene.run(pids=pids).exit_reason is ExitReason.TARGETS_EXITED
    for pipe in pids:
        pipe.close()


def test_the_recorders_death_ends_it_where_nothing_else_is_awaited(scene):
    scene.recorder.ring()
    assert scene.run().exit_reason is ExitReason.RECORDER_DIED
    assert scene.recorder.stopped is None


def test_the_recorders_death_waits_for_the_command(scene):
    command = Command()
    scene.recorder.ring()
    command.end(3)
    result = scene.run(command=command, duration_s=0.01)
    assert (result.exit_reason, result.command_status) == (ExitReason.RECORDER_DIED, 3)
    command.close()


def test_what_the_recorder_complains_about_is_told(scene):
    scene.recorder.messages = [{"say": "error", "message": "the disk is full"}]
    scene.recorder.ring()
    scene.recorder.ring()
    assert scene.run().exit_reason is ExitReason.RECORDER_DIED
    assert scene.notices == ["the disk is full", "the recorder died: what it had recorded is kept"]


def test_a_recorder_that_does_not_answer_is_told(tmp_path):
    scene = Scene(tmp_path, Recorder(answers=False))
    with scene.signals:
        assert scene.run(duration_s=0.01).exit_reason is ExitReason.DURATION
    assert scene.notices == ["the recorder did not end in good order: the last moments may be missing"]
    scene.recorder.close()


def test_without_a_recorder_the_command_is_all_that_counts(scene):
    command = Command()
    command.end(0)
    result = scene.run(command=command, attached=False, duration_s=0.0001)
    assert (result.exit_reason, result.recording, result.command_status) == (ExitReason.COMMAND_EXITED, None, 0)
    assert scene.told == []
    scene.file.abandon()
    command.close()


def test_why_a_command_could_not_start_is_told(scene):
    command = Command(failure="Permission denied")
    command.end(126)
    assert scene.run(command=command, argv=("tool",)).command_status == 126
    assert scene.notices == ["tool: Permission denied"]
    command.close()
