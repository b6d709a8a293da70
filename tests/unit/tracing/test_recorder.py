# SPDX-License-Identifier: Apache-2.0
"""The front's hold on the recorder: meeting it, its errors, its death, its stop."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("traces on Linux only", allow_module_level=True)

from netdiag import privilege
from netdiag.errors import InputUnreadable, NotPermitted, Unsupported, UsageError
from netdiag.privilege import Means
from netdiag.tracing import recorder as recorder_module
from netdiag.tracing.elevation import Elevation
from netdiag.tracing.recorder import Interrupted, Recorder
from netdiag.tracing.signals import Signals

FAKE = Path(__file__).resolve().parents[2] / "fakes" / "recorder.py"


def elevation(*program: str, means: Means = Means.ROOT) -> Elevation:
    return Elevation(means=means, program=program or (sys.executable, "-I", "-S", str(FAKE)), notice=None)


@contextmanager
def meeting(how: Elevation | None = None) -> Iterator[Recorder]:
    with Signals() as signals:
        recorder = Recorder(how or elevation(), signals)
        try:
            yield recorder
        finally:
            recorder.close(reap_s=10.0)  # busy machines take long, and what is not reaped warns


def start(**options: Any) -> dict[str, Any]:
    return {"do": "start", "target": {}, "command": None, "probes": [], "options": options}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "recording", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    yield fd
    os.close(fd)


def test_what_can_be_done_meanwhile_is_done_once_and_an_early_answer_waits(file):
    done: list[str] = []

    def take_time() -> None:
        time.sleep(0.2)
        done.append("done")

    with meeting() as recorder:
        assert recorder.arm(start(), file, meanwhile=take_time)["say"] == "armed"
        assert recorder.stop("duration", None, timeout_s=10.0)
    assert len(done) == 1


def test_it_arms_records_and_stops(file, tmp_path):
    with meeting() as recorder:
        assert recorder.arm(start(), file)["coverage"] == {"tier": "fake"}
        assert recorder.heard() is None
        assert recorder.stop("duration", None, timeout_s=10.0)
    assert b'"reason": "duration"' in (tmp_path / "recording").read_bytes()


@pytest.mark.parametrize(
    ("code", "kind"), [(2, UsageError), (4, NotPermitted), (5, Unsupported), (6, InputUnreadable), (1, Unsupported)]
)
def test_its_errors_are_ours(file, code, kind):
    error = {"exit_code": code, "message": "no", "hint": "do"}
    with meeting() as recorder, pytest.raises(kind, match="no") as raised:
        recorder.arm(start(error=error), file)
    assert (type(raised.value), raised.value.hint) == (kind, "do")


def test_a_start_that_ends_in_death_says_why(file):
    with meeting() as recorder, pytest.raises(Unsupported, match="before it was armed: the fake was told to die"):
        recorder.arm(start(die_at_start=True), file)


def test_a_target_too_long_for_a_message_is_wrong_usage(file):
    with meeting() as recorder, pytest.raises(UsageError, match="too long"):
        recorder.arm({**start(), "target": {"pids": list(range(100_000))}}, file)


def test_arming_is_bounded_and_can_be_interrupted(file, monkeypatch):
    monkeypatch.setattr(recorder_module, "ARM_S", 0.05)
    with meeting() as recorder, pytest.raises(Unsupported, match="not armed within"):
        recorder.arm(start(arm_s=5), file)
    monkeypatch.setattr(recorder_module, "ARM_S", 10.0)
    with meeting() as recorder:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted):
            recorder.arm(start(arm_s=5), file)


def test_its_death_is_the_end_of_file(file):
    with meeting() as recorder:
        recorder.arm(start(die_s=0.01), file)
        select.select([recorder], [], [], 10.0)
        with pytest.raises(EOFError):
            recorder.heard()
        assert not recorder.stop("duration", None, timeout_s=1.0)


def test_one_that_does_not_answer_is_left(file):
    with meeting() as recorder:
        recorder.arm(start(deaf=True), file)
        assert not recorder.stop("interrupted", None, timeout_s=0.05)


def test_a_program_that_ends_at_once_says_why():
    broken = elevation(sys.executable, "-c", "raise SystemExit('no module for you')")
    with pytest.raises(Unsupported, match=r"ended at once \(status 1\): no module for you"), meeting(broken):
        pass


def test_a_program_that_never_connects_is_given_up_and_killed(monkeypatch, tmp_path):
    monkeypatch.setattr(recorder_module, "MEET_S", 0.3)
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(Unsupported, match="did not connect"), meeting(elevation(sys.executable, "-S", "-c", code)):
        pass
    written = (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""
    assert not written or not Path(f"/proc/{written}").exists()


def test_a_signal_while_it_is_awaited_ends_the_wait():
    sleeper = elevation(sys.executable, "-S", "-c", "import time; time.sleep(60)")
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted):
            Recorder(sleeper, signals)


def test_a_refusal_of_sudo_is_told_with_the_missing_rights(monkeypatch, tmp_path):
    refusing = tmp_path / "sudo"
    said = "Sorry, try again.\nsudo: a password is required\nsudo: ask your administrator"
    refusing.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(privilege, "_sudo", lambda: [str(refusing)])
    monkeypatch.setattr(privilege, "has_terminal", lambda: False)
    asking = elevation("/bin/true", means=Means.SUDO)
    with (
        pytest.raises(NotPermitted, match="recorder: sudo: a password is required ask your administrator"),
        meeting(asking),
    ):
        pass
