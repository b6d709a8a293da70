# SPDX-License-Identifier: Apache-2.0
"""Processes that stand still, as the kernel tells it: stopped by a signal, frozen with their cgroup."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from netdiag.recorder.targets import cgroup_root
from netdiag.recording.reader import read
from netdiag.tables import build

pytestmark = pytest.mark.kernel

STOPPED = """
import os, signal, sys, time
how, seconds, group = sys.argv[1], float(sys.argv[2]), sys.argv[3]
me = os.getpid()
if how == "handled":
    signal.signal(signal.SIGTSTP, lambda *_: None)
if group:
    with open(group + "/cgroup.procs", "w") as file:
        file.write(str(me))
if os.fork() == 0:
    if group:  # not frozen with the other
        with open(os.path.dirname(group) + "/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
    time.sleep(0.1)
    for begin in (True, False):
        if group:
            with open(group + "/cgroup.freeze", "w") as file:
                file.write("1" if begin else "0")
        elif begin:
            os.kill(me, signal.SIGSTOP if how == "stop" else signal.SIGTSTP)
        else:
            os.kill(me, signal.SIGCONT)
        time.sleep(seconds if begin else 0)
    os._exit(0)
began = time.monotonic()
while time.monotonic() - began < 0.3 + seconds:
    time.sleep(0.01)
os.wait()
print(me)
"""


def stops_of(folder, how, seconds=0.5, group=""):
    """Trace a process that is stopped for a while; return its number and the stops that were seen."""
    recording = folder / "a.netdiag"
    command = [sys.executable, "-m", "netdiag", "trace", "--as-root", "--no-keep", "--save", str(recording)]
    command += ["-o", str(folder / "out.txt"), "--probe", "tcp,process", "--"]
    command += [sys.executable, "-c", STOPPED, how, str(seconds), group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout), build(read(str(recording))).stops


@pytest.mark.parametrize("how", ["stop", "tstp"])
def test_a_signal_stops_a_process_for_as_long_as_it_does(how, tmp_path):
    pid, stops = stops_of(tmp_path, how)
    assert stops["pid"].tolist() == [pid]
    assert stops["how"].tolist() == ["signal"]
    assert 499 < stops["lasted_ms"][0] < 700


def test_a_signal_that_the_process_handles_itself_does_not_stop_it(tmp_path):
    assert len(stops_of(tmp_path, "handled", 0.05)[1]) == 0


@pytest.fixture
def group():
    """Return a cgroup of its own, in a hierarchy that has a freezer."""
    root = cgroup_root()
    if root is None:
        pytest.skip("needs cgroup v2")
    folder = Path(root) / f"netdiag-test-{os.getpid()}"
    folder.mkdir()
    if not (folder / "cgroup.freeze").exists():
        folder.rmdir()
        pytest.skip("needs a kernel whose cgroups can be frozen")
    yield str(folder)
    folder.rmdir()


def test_a_cgroup_that_is_frozen(group, tmp_path):
    pid, stops = stops_of(tmp_path, "freeze", 0.5, group)
    assert stops["pid"].tolist() == [pid]
    assert stops["how"].tolist() == ["freezer"]
    assert 490 < stops["lasted_ms"][0] < 700
