# SPDX-License-Identifier: Apache-2.0
"""A trace from the front's side, with real children, signals and terminals, and a recorder that only pretends."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("traces on Linux only", allow_module_level=True)

FRONT = Path(__file__).resolve().parents[1] / "fakes" / "front.py"
PATIENCE_S = 20.0


class Traced:
    """A front that runs, and what it told when it had ended."""

    def __init__(self, folder: Path, spec: dict[str, Any], **popen: Any) -> None:
        self.folder = folder
        self.recording = folder / "trace.netdiag"
        self.armed = folder / "armed"
        whole = {"fake": True, "elevates_nothing": True, "save": str(self.recording), "armed_file": str(self.armed)}
        (folder / "spec.json").write_text(json.dumps(whole | spec))
        arguments = [sys.executable, str(FRONT), str(folder / "spec.json"), str(folder / "result.json")]
        environment = popen.pop("env", dict(os.environ)) | {"XDG_STATE_HOME": str(folder / "state")}
        self.process = subprocess.Popen(arguments, env=environment, **popen)

    def wait(self) -> dict[str, Any]:
        """Return what the front told at its end, `status` its exit status."""
        status = self.process.wait(timeout=PATIENCE_S)
        result: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return result | {"status": status}

    def command_pid(self) -> int | None:
        """Wait until CMD was let go; return its pid."""
        until(self.armed.exists)
        text = self.armed.read_text()
        return None if text == "None" else int(text)

    def facts(self) -> dict[str, Any]:
        """Return what the fake recorder wrote down."""
        lines = self.recording.read_bytes().split(b"\n")
        assert lines[0] == b"NETDIAG\0"
        return {name: value for line in lines[1:] if line for name, value in json.loads(line).items()}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.fixture(params=["pretended", pytest.param("real", marks=pytest.mark.kernel)])
def either(start: Callable[..., Traced], request: pytest.FixtureRequest) -> Callable[..., Traced]:
    """Start a trace with the recorder that pretends, and once more with the real one."""
    return lambda spec, **popen: start({"fake": request.param == "pretended"} | spec, **popen)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Traced]]:
    started: list[Traced] = []

    def begin(spec: dict[str, Any], **popen: Any) -> Traced:
        started.append(Traced(tmp_path, spec, **popen))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        for stream in (one.process.stdin, one.process.stdout, one.process.stderr):
            if stream is not None:
                stream.close()


def python(code: str) -> list[str]:
    """Return a command that runs `code` and says nothing else."""
    return [sys.executable, "-S", "-c", textwrap.dedent(code)]


# CMD is itself


@pytest.mark.parametrize(("code", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143)])
def test_the_status_of_the_command_is_the_status(either, code, status):
    result = either({"command": ["sh", "-c", code]}).wait()
    assert (result["status"], result["command_status"], result["exit_reason"]) == (status, status, "command-exited")


def test_the_recorder_is_told_why_it_ends(start):
    traced = start({"command": ["sh", "-c", "exit 7"]})
    traced.wait()
    assert traced.facts()["stop"] == {"do": "stop", "reason": "command-exited", "exit_status": 7}


def test_what_cannot_be_found_or_executed_never_reaches_the_recorder(start, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("not a program")
    assert start({"command": ["no-such-program"]}).wait()["status"] == 127
    result = start({"command": [str(plain)]}).wait()
    assert result["status"] == 126
    assert result["notices"] == [f"{plain}: permission denied"]
    assert not (tmp_path / "trace.netdiag").exists()


def test_a_program_that_the_kernel_refuses_is_told(start, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    result = start({"command": [str(broken)]}).wait()
    assert result["status"] == 127
    assert result["notices"] == [f"{broken}: No such file or directory"]


def test_a_script_without_a_first_line_is_the_shells(start, tmp_path):
    script = tmp_path / "script"
    script.write_text('exit "$1"\n')
    script.chmod(0o755)
    assert start({"command": [str(script), "9"]}).wait()["status"] == 9


def test_the_environment_is_byte_for_byte_the_callers(either):
    given = {
        b"PATH": os.fsencode(os.environ["PATH"]),
        b"B\xff": b"\xfe\x80",
        b"EMPTY": b"",
        b"A": b"=\n=",
        b"LANG": b"C",
    }
    traced = either({"command": ["cat", "/proc/self/environ"]}, env={**given, b"HOME": b"/"}, stdout=subprocess.PIPE)
    assert traced.process.stdout is not None
    seen = traced.process.stdout.read().rstrip(b"\0").split(b"\0")
    assert traced.wait()["status"] == 0
    state = b"XDG_STATE_HOME=" + os.fsencode(traced.folder / "state")
    assert sorted(seen) == sorted([*(name + b"=" + value for name, value in given.items()), b"HOME=/", state])


def test_directory_streams_and_arguments_are_the_callers(either, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    traced = either(
        {"command": ["sh", "-c", 'pwd; cat; echo "$0 $1" >&2', "zero", "one  two"]},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = traced.process.communicate(b"through stdin", timeout=PATIENCE_S)
    assert (out, err) == (os.fsencode(folder) + b"\nthrough stdin", b"zero one  two\n")


def test_no_descriptor_of_netdiag_leaks_into_the_command(either):
    code = """
        import os
        print(sorted(fd for fd in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{fd}")))
    """
    with Path(os.devnull).open() as passed:
        os.set_inheritable(passed.fileno(), True)
        alone = subprocess.run(python(code), pass_fds=[passed.fileno()], stdout=subprocess.PIPE, check=True).stdout
        traced = either({"command": python(code)}, pass_fds=[passed.fileno()], stdout=subprocess.PIPE)
        assert traced.process.stdout is not None
        assert traced.process.stdout.read() == alone
    assert traced.wait()["status"] == 0


def test_signal_dispositions_and_mask_are_the_callers(either):
    command = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]

    def ignoring() -> None:
        for number in (signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    for prepare in (None, ignoring):
        traced = either({"command": command}, stdout=subprocess.PIPE, preexec_fn=prepare)
        assert traced.process.stdout is not None
        expected = subprocess.run(command, stdout=subprocess.PIPE, preexec_fn=prepare, check=True).stdout
        assert traced.process.stdout.read() == expected
        assert traced.wait()["command_status"] == 0
        traced.armed.unlink(missing_ok=True)


def test_the_command_starts_after_the_probes_are_armed(start):
    code = "import time; print(time.monotonic_ns())"
    traced = start({"command": python(code), "options": {"arm_s": 0.2}}, stdout=subprocess.PIPE)
    assert traced.process.stdout is not None
    began = int(traced.process.stdout.read())
    traced.wait()
    facts = traced.facts()
    assert facts["armed_ns"] < began
    assert facts["start"]["target"]["pids"] == [facts["start"]["command"]["pid"]]


def test_the_values_of_the_command_line_are_masked_unless_asked_for(start):
    command = ["true", "--key=hunter2", "prompt"]
    traced = start({"command": command})
    traced.wait()
    assert traced.facts()["start"]["command"]["argv"] == ["true", "--key={…}", "{…}"]
    traced = start({"command": command, "keep_argv": True})
    traced.wait()
    assert traced.facts()["start"]["command"]["argv"] == command


# Ctrl-C and the terminal


TRAPPING = """
    import signal, sys, time
    signal.signal(signal.SIGINT, lambda *_: (time.sleep(0.2), sys.exit(5)))
    print("ready", flush=True)
    time.sleep(30)
"""
DEAF = """
    import signal, time
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("ready", flush=True)
    time.sleep(30)
"""


def ready(traced: Traced) -> None:
    assert traced.process.stdout is not None
    assert traced.process.stdout.readline() == b"ready\n"
    traced.command_pid()


def test_the_first_interrupt_is_the_commands(either):
    traced = either({"command": python(TRAPPING)}, stdout=subprocess.PIPE, start_new_session=True)
    ready(traced)
    os.killpg(traced.process.pid, signal.SIGINT)
    result = traced.wait()
    assert (result["status"], result["exit_reason"]) == (5, "command-exited")


def test_a_second_interrupt_prints_at_once_and_the_command_runs_on(either):
    took = []
    for _ in range(3):  # the best of three: the machine may be busy
        traced = either({"command": python(DEAF)}, stdout=subprocess.PIPE, start_new_session=True)
        ready(traced)
        os.killpg(traced.process.pid, signal.SIGINT)
        time.sleep(0.3)
        assert traced.process.poll() is None
        began = time.monotonic()
        os.killpg(traced.process.pid, signal.SIGINT)
        result = traced.wait()
        took.append(time.monotonic() - began)
        assert (result["exit_reason"], result["command_status"]) == ("interrupted", None)
        pid = traced.command_pid()
        traced.armed.unlink()
        assert pid is not None
        assert lives(pid)
        os.kill(pid, signal.SIGKILL)
    assert min(took) < 1.0


def test_the_command_has_the_terminal_and_ctrl_c_reaches_it(either):
    code = """
        import os, signal, sys
        assert os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp(), "not in the foreground"
        try:
            print("hello", input(), flush=True)
            signal.pause()
        except KeyboardInterrupt:
            sys.exit(6)
    """
    master, slave = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        os.close(os.open(os.ttyname(0), os.O_RDWR))  # the first terminal that a session opens becomes its own

    traced = either({"command": python(code)}, stdin=slave, stdout=slave, stderr=slave, preexec_fn=take_terminal)
    os.close(slave)
    os.write(master, b"world\n")
    seen = read_until(master, b"hello world")
    os.write(master, b"\x03")
    result = traced.wait()
    os.close(master)
    assert b"Traceback" not in seen
    assert (result["status"], result["exit_reason"]) == (6, "command-exited")


def read_until(fd: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        assert select.select([fd], [], [], PATIENCE_S)[0], seen
        seen += os.read(fd, 4096)
    return seen


def test_an_interrupt_before_the_probes_are_armed_leaves_nothing(start):
    traced = start({"command": ["sleep", "30"], "options": {"arm_s": 5}}, start_new_session=True)
    until(lambda: traced.recording.exists() and b"start" in traced.recording.read_bytes())
    os.killpg(traced.process.pid, signal.SIGINT)
    result = traced.wait()
    assert (result["status"], result["recording"], result["exit_reason"]) == (130, None, "interrupted")
    assert not traced.recording.exists()


# Ends without a command


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_a_trace_without_a_command_within_a_second(start, number):
    took = []
    for _ in range(3):  # the best of three: the machine may be busy
        traced = start({"options": {"deaf": True}})
        traced.command_pid()
        traced.armed.unlink()
        began = time.monotonic()
        traced.process.send_signal(number)
        result = traced.wait()
        took.append(time.monotonic() - began)
        assert (result["status"], result["exit_reason"]) == (0, "interrupted")
    assert min(took) < 1.0
    assert result["notices"] == ["the recorder did not end in good order: the last moments may be missing"]


def test_the_duration_ends_it(either):
    result = either({"duration_s": 0.3}).wait()
    assert result["exit_reason"] == "duration"
    assert 0.3 <= result["duration_s"] < 0.5 + result["took_s"] / 2


def test_the_duration_ends_the_trace_and_not_the_command(either):
    traced = either({"command": ["sleep", "30"], "duration_s": 0.3})
    result = traced.wait()
    assert (result["exit_reason"], result["command_status"]) == ("duration", None)
    pid = traced.command_pid()
    assert pid is not None
    assert lives(pid)
    os.kill(pid, signal.SIGKILL)


def test_the_end_of_the_last_process_ends_it(either):
    with subprocess.Popen(["sleep", "30"]) as one, subprocess.Popen(["sleep", "30"]) as other:
        traced = either({"target": {"pids": [one.pid, other.pid]}})
        traced.command_pid()
        one.kill()
        time.sleep(0.3)
        assert traced.process.poll() is None
        other.kill()
        assert traced.wait()["exit_reason"] == "targets-exited"


def test_a_process_that_does_not_exist_is_wrong_usage(start):
    with subprocess.Popen(["true"]) as gone:
        pass
    result = start({"target": {"pids": [gone.pid]}}).wait()
    assert (result["status"], result["error"]) == (2, f"there is no process {gone.pid}")


# Deaths


def test_the_death_of_the_recorder_leaves_the_command_alone(start):
    code = "import time; time.sleep(0.6); print('done', flush=True); raise SystemExit(3)"
    traced = start({"command": python(code), "options": {"die_s": 0.1}}, stdout=subprocess.PIPE)
    result = traced.wait()
    assert traced.process.stdout is not None
    assert traced.process.stdout.read() == b"done\n"
    assert (result["status"], result["exit_reason"]) == (3, "recorder-died")
    assert result["notices"] == ["the recorder died: what it had recorded is kept"]
    assert "armed_ns" in traced.facts()


def test_the_death_of_the_recorder_ends_a_trace_without_a_command(start):
    result = start({"options": {"die_s": 0.1}}).wait()
    assert (result["status"], result["exit_reason"]) == (0, "recorder-died")


def test_the_death_of_the_front_leaves_the_command_and_ends_the_recorder(start):
    traced = start({"command": ["sleep", "30"]})
    pid = traced.command_pid()
    assert pid is not None
    traced.process.kill()
    until(lambda: "front" in traced.facts())
    recorder = traced.facts()["me"]["pid"]
    until(lambda: not lives(recorder))
    assert lives(pid)
    os.kill(pid, signal.SIGKILL)


def test_a_command_whose_front_died_before_the_probes_were_armed_never_starts(start, tmp_path):
    witness = tmp_path / "started"
    traced = start({"command": ["touch", str(witness)], "options": {"arm_s": 1.0}})
    until(lambda: traced.recording.exists() and b"start" in traced.recording.read_bytes())
    waiting = traced.facts()["start"]["command"]["pid"]
    traced.process.kill()
    until(lambda: not lives(waiting))
    assert not witness.exists()


def test_a_recorder_that_dies_at_once_says_why(start):
    result = start({"command": ["true"], "options": {"die_at_start": True}}).wait()
    assert (result["status"], result["error"]) == (
        5,
        "the recorder ended before it was armed: the fake was told to die",
    )


ERROR = {"exit_code": 5, "message": "this kernel has no BTF", "hint": "use a kernel with it"}


def test_where_nothing_can_load_the_command_does_not_run(start, tmp_path):
    witness = tmp_path / "started"
    result = start({"command": ["touch", str(witness)], "options": {"error": ERROR}}).wait()
    assert (result["status"], result["error"], result["hint"]) == (5, ERROR["message"], ERROR["hint"])
    assert not witness.exists()
    assert not (tmp_path / "trace.netdiag").exists()


def test_where_nothing_can_load_the_command_runs_if_asked(start):
    spec = {"command": ["sh", "-c", "exit 4"], "if_unavailable": "run", "options": {"error": ERROR}}
    result = start(spec).wait()
    assert (result["status"], result["recording"]) == (4, None)
    assert result["notices"] == ["not traced: this kernel has no BTF"]


# What is elevated, and what is left


def test_the_recorder_sees_nothing_of_the_user(start):
    traced = start({"command": ["true"]}, env=dict(os.environ) | {"PYTHONPATH": "/nowhere", "SECRET": "x"})
    traced.wait()
    me = traced.facts()["me"]
    assert me["environ"] == {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    assert (me["cwd"], me["isolated"], me["session"]) == ("/", 1, me["pid"])


def test_the_meeting_place_is_gone_afterwards(start, tmp_path):
    place = tmp_path / "run"
    place.mkdir(mode=0o700)
    result = start({"command": ["true"]}, env=dict(os.environ) | {"XDG_RUNTIME_DIR": str(place)}).wait()
    assert result["status"] == 0
    assert list(place.iterdir()) == []


def test_the_recording_is_the_users_alone_and_kept_as_last(either, tmp_path):
    traced = either({"command": ["true"]})
    assert traced.wait()["states"] == ["armed", "stopping"]
    (kept,) = (tmp_path / "state" / "netdiag").iterdir()
    assert kept.samefile(traced.recording)
    assert traced.recording.stat().st_mode & 0o777 == 0o600


def test_without_a_name_the_recording_is_the_last_and_without_keeping_it_is_nowhere(start, tmp_path):
    result = start({"command": ["true"], "save": None}).wait()
    assert Path(result["recording"]).parent == tmp_path / "state" / "netdiag"
    result = start({"command": ["true"], "save": None, "keep": False}).wait()
    assert result["temporary"]
    assert len(list((tmp_path / "state" / "netdiag").iterdir())) == 1
    Path(result["recording"]).unlink()


def test_a_file_that_is_no_recording_is_never_replaced(start, tmp_path):
    precious = tmp_path / "app.py"
    precious.write_text("print('mine')\n")
    result = start({"command": ["true"], "save": str(precious)}).wait()
    assert (result["status"], result["error"]) == (2, f"{precious} exists and is not a recording; it was left as it is")
    assert precious.read_text() == "print('mine')\n"
