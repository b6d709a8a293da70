# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import netdiag.tracing
from netdiag.cli.trace import exit_status, farewell
from netdiag.tracing.request import ExitReason, Progress, TraceRequest, TraceResult
from tests.fakes.commands import call, recording_file


def result(recording=None, reason=ExitReason.COMMAND_EXITED, status=0, **changes):
    values = {"recording": recording, "exit_reason": reason, "command_status": status, "duration_s": 1.25}
    return TraceResult(**{**values, "coverage": None, **changes})


@pytest.fixture
def tracer(monkeypatch, tmp_path):
    """A tracer that records nothing new: it keeps the request, and returns what the test wants."""

    class Tracer:
        request: TraceRequest | None = None
        answer = result(recording_file(tmp_path))

        def __call__(self, request, on_progress, on_notice, meanwhile):
            self.request = request
            meanwhile()
            on_progress(Progress(state="armed", elapsed_s=0, recording=Path("x"), recorded_bytes=0, command_pid=None))
            on_notice("a line for the user")
            return self.answer

    fake = Tracer()
    monkeypatch.setattr(netdiag.tracing, "trace", fake)
    return fake


def test_the_words_become_a_request(capsys, tracer):
    words = ["--pid", 1, "--pid", 2, "--exe", "curl", "--comm", "x", "--cgroup", "/a", "--container", "abcdef"]
    words += ["--pod", "a/b", "--port", 443, "--host", "api.example", "--no-follow", "--duration", 2.5]
    words += ["--no-keep", "--probe", "tcp, process", "--if-unavailable", "run", "--as-root", "--keep-argv"]
    assert call(capsys, "trace", *words, "--", "echo", "--pid", "--", "x").status == 0
    request = tracer.request
    assert request.command == ("echo", "--pid", "--", "x")
    assert request.target.pids == (1, 2)
    assert request.target.hosts == ("api.example",)
    assert request.target.ports == (443,)
    assert request.target.follow is False
    assert request.duration_s == 2.5
    assert request.keep is False
    assert request.probes == ("tcp", "process")
    assert request.if_unavailable == "run"
    assert request.as_root
    assert request.keep_argv


def test_what_results_need_is_imported_while_the_recorder_arms(root):
    """In a process of its own, for here it was imported long ago."""
    lines = (
        "import sys",
        "from netdiag.cli import trace",
        "print('pandas' in sys.modules)",
        "trace._prepare()",
        "before = set(sys.modules)",
        "from netdiag.cli.results import examine",
        "from netdiag import analysis, config, tables",
        "from netdiag.document import build",
        "from netdiag.render import render",
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('netdiag')))",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True, cwd=root
    )
    first, then = done.stdout.splitlines()
    assert first == "False"  # a trace that is refused does not wait for it
    assert "pandas" not in then
    assert "numpy" not in then


def test_a_command_needs_no_dashes(capsys, tracer):
    call(capsys, "trace", "--no-keep", "python3", "--version")
    assert tracer.request.command == ("python3", "--version")


@pytest.mark.usefixtures("tracer")
def test_with_a_command_stdout_stays_the_commands(capsys):
    called = call(capsys, "trace", "--", "true")
    assert called.out == ""
    assert "netdiag: python3 app.py" in called.err
    assert called.err.splitlines()[-1] == "netdiag: ended: the command ended with status 0"
    assert "netdiag: a line for the user" in called.err


def test_without_a_command_results_go_to_stdout(capsys, tracer):
    tracer.answer = result(tracer.answer.recording, ExitReason.DURATION, None)
    called = call(capsys, "trace", "--duration", 1, "--format", "json", "--no-live-lines")
    assert json.loads(called.out)["schema"] == "netdiag.trace/1"
    assert called.err.splitlines()[-1] == "netdiag: ended: --duration of 1 s was over"


@pytest.mark.parametrize("name", ["json", "ndjson", "csv"])
def test_data_with_a_command_needs_a_file(capsys, tracer, name):
    called = call(capsys, "trace", "--format", name, "--", "true")
    assert called.status == 2
    assert "-o FILE" in called.err
    assert tracer.request is None


@pytest.mark.parametrize("words", ["nosuch<=2", "time.nosuch.ms<2", "connections", "wait_ms.p51<3"])
def test_an_assertion_about_nothing_is_found_before_the_run(capsys, tracer, words):
    called = call(capsys, "trace", "--assert", words, "--", "true")
    assert called.status == 2
    assert tracer.request is None


@pytest.mark.parametrize("words", ["connections<=9999", "time.queue.ms<=1", "time.tls.share<=1", "wait_ms.p50<9"])
def test_an_assertion_about_any_member_of_a_summary_lets_it_run(capsys, tracer, words):
    call(capsys, "trace", "--assert", words, "--", "true")
    assert tracer.request is not None


@pytest.mark.usefixtures("tracer")
def test_data_with_a_command_goes_into_the_file(capsys, tmp_path):
    called = call(capsys, "trace", "--format", "json", "-o", tmp_path / "x.json", "--", "true")
    assert called.status == 0
    assert called.out == ""
    assert json.loads((tmp_path / "x.json").read_text())["exit_reason"] == "command-exited"


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--duration", "0"], "--duration"), (["--duration", "-1"], "--duration"), (["--save", "/no/such/x"], "--save")],
)
def test_wrong_words_are_found_before_tracing(capsys, tracer, words, says):
    called = call(capsys, "trace", *words, "--", "true")
    assert called.status == 2
    assert says in called.err
    assert tracer.request is None


@pytest.mark.parametrize(
    ("trace", "gated", "status"),
    [
        (result(Path("x"), status=0), 0, 0),
        (result(Path("x"), status=0), 3, 3),
        (result(Path("x"), status=7), 3, 7),
        (result(Path("x"), status=137), 0, 137),
        (result(None, status=127), 0, 127),
        (result(Path("x"), ExitReason.INTERRUPTED, None), 0, 0),
        (result(None, ExitReason.INTERRUPTED, None), 0, 130),
    ],
)
def test_exit_status(trace, gated, status):
    assert exit_status(trace, gated) == status


@pytest.mark.usefixtures("tracer")
def test_a_gate_that_fails_is_status_3_and_the_last_line_still_says_who_ended_it(capsys):
    called = call(capsys, "trace", "--assert", "connections<=1", "--", "true")
    assert called.status == 3
    assert called.err.splitlines()[-2:] == [
        "netdiag: assertion failed: connections<=1 (the value is 6)",
        "netdiag: ended: the command ended with status 0",
    ]


def test_a_temporary_recording_is_removed_even_when_the_results_fail(capsys, tracer, tmp_path):
    path = tmp_path / "broken.netdiag"
    path.write_bytes(b"not a recording")
    tracer.answer = result(path, temporary=True)
    assert call(capsys, "trace", "--no-keep", "--", "true").status == 6
    assert not path.exists()
    path.write_bytes(b"not a recording")
    tracer.answer = result(path, status=9, temporary=True)
    assert call(capsys, "trace", "--no-keep", "--", "true").status == 9


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (result(Path("x"), status=139), "by signal 11"),
        (result(status=127), "no such command"),
        (result(status=126), "cannot be executed"),
        (result(reason=ExitReason.INTERRUPTED, status=None), "Ctrl-C, or another signal to end"),
        (result(reason=ExitReason.TARGETS_EXITED, status=None), "the last traced process ended"),
        (result(reason=ExitReason.RECORDER_DIED, status=None), "the recorder ended early"),
    ],
)
def test_the_last_line_names_who_and_why(trace, says):
    assert says in farewell(TraceRequest(), trace)
