# SPDX-License-Identifier: Apache-2.0
"""What /proc says of a process that was met."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time

import pytest

from netdiag.recorder.processes import ProcessFacts, describe
from netdiag.recording.format import Field, FieldKind, StreamLayout
from netdiag.recording.reader import read
from netdiag.recording.writer import RecordingWriter

SEEN, FORK, EXEC, EXIT = 1, 2, 3, 4
LAYOUT = StreamLayout.of_ring(
    stream=3,
    name="process",
    struct="process_event",
    size=136,
    fields=(
        Field(name="tgid", type="nd_pid", offset=0, size=4, kind=FieldKind.UINT),
        Field(name="kind", type="__u8", offset=4, size=1, kind=FieldKind.UINT),
        Field(name="filename", type="char", offset=8, size=128, kind=FieldKind.CHAR),
    ),
)


@pytest.fixture
def facts(tmp_path):
    """Return the writer of a recording, and a function that gives the facts that were written."""
    path = tmp_path / "facts.ndrec"
    clock = {"monotonic_ns": 1, "realtime_ns": 1, "boottime_ns": 1}
    with path.open("w+b") as file:
        writer = RecordingWriter(file.fileno(), {"clock": clock})
        yield writer, lambda: read(path).facts


def records(*members):
    return b"".join(
        struct.pack("=II", 136, 0) + struct.pack("=IB3x128s", pid, kind, program[0] if program else b"")
        for pid, kind, *program in members
    )


def test_this_process():
    fact = describe(os.getpid(), keep_argv=True)
    assert fact is not None
    assert (fact["pid"], fact["ppid"]) == (os.getpid(), os.getppid())
    assert fact["exe"] == os.path.realpath(sys.executable)
    assert fact["argv"][0].rpartition("/")[2].startswith(("python", "pytest"))
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - fact["started_ns"] / 1e9
    assert 0 < age_s < 3600


def test_a_start_on_the_clock_of_the_kernel_programs():
    plain = describe(os.getpid(), keep_argv=False)
    moved = describe(os.getpid(), keep_argv=False, asleep_ns=5_000_000_000)
    assert plain is not None
    assert moved is not None
    assert plain["started_ns"] - moved["started_ns"] == 5_000_000_000


def test_a_process_that_is_gone_is_no_fact():
    child = subprocess.Popen(["true"])
    child.wait()
    assert describe(child.pid, keep_argv=False) is None


def test_a_name_with_brackets_and_spaces_moves_nothing():
    rename = "open('/proc/self/comm', 'w').write('a) R 1 (b')"
    argv = [sys.executable, "-c", f"import sys; {rename}; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        fact = describe(child.pid, keep_argv=False)
        child.communicate()
    assert fact is not None
    assert (fact["comm"], fact["ppid"]) == ("a) R 1 (b", os.getpid())


@pytest.mark.parametrize("keep", [True, False])
def test_values_of_arguments_are_masked_unless_asked_for(keep):
    secret = "ndk-secret-value"
    argv = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "--api-key", secret]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        fact = describe(child.pid, keep_argv=keep)
        child.communicate()
    assert fact is not None
    assert (secret in fact["argv"]) is keep
    assert "--api-key" in fact["argv"]


def test_processes_are_looked_at_when_first_seen_and_when_they_run_a_program(facts):
    writer, told = facts
    me = os.getpid()
    met = ProcessFacts(writer, keep_argv=False).meet(
        LAYOUT, [memoryview(records((me, SEEN), (me, FORK))), memoryview(records((me, EXIT), (me, EXEC), (0, SEEN)))]
    )
    assert met == [me, me]
    assert [(fact["kind"], fact["pid"]) for fact in told()] == [("process", me)] * 2
    assert len({fact["started_ns"] for fact in told()}) == 1


def test_a_record_may_lie_across_two_runs(facts):
    data = records((os.getpid(), SEEN), (os.getpid(), SEEN))
    assert (
        len(ProcessFacts(facts[0], keep_argv=False).meet(LAYOUT, [memoryview(data[:11]), memoryview(data[11:])])) == 2
    )


def test_a_bare_name_is_told_by_the_path_that_was_run(facts, tmp_path):
    """A virtual environment's `python`, found by a shell, leads to the packages of that environment."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    package = venv / f"lib/python3.{sys.version_info.minor}/site-packages/httpx-9.8.dist-info"
    package.mkdir(parents=True)
    code = "print(flush=True); import sys; sys.stdin.read()"
    argv, program = ["python", "-S", "-c", code], os.path.realpath(sys.executable)
    with subprocess.Popen(argv, executable=program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        seen = ProcessFacts(facts[0], keep_argv=False)
        seen.meet(LAYOUT, [memoryview(records((child.pid, EXEC, os.fsencode(venv / "bin" / "python"))))])
        seen.meet(LAYOUT, [memoryview(records((child.pid, SEEN)))])
        child.communicate()
    for fact in facts[1]():
        assert ("httpx", "9.8") in {(library["name"], library["version"]) for library in fact["libraries"]}
    assert len(facts[1]()) == 2


def test_the_paths_of_programs_are_bounded(facts, monkeypatch):
    monkeypatch.setattr("netdiag.recorder.processes._MAX_PROGRAMS", 2)
    seen = ProcessFacts(facts[0], keep_argv=False)
    for pid in (2**22 + 1, 2**22 + 2, 2**22 + 3):
        seen.meet(LAYOUT, [memoryview(records((pid, EXEC, b"/bin/true")))])
    assert list(seen._programs) == [2**22 + 2, 2**22 + 3]
