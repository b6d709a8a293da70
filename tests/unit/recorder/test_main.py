# SPDX-License-Identifier: Apache-2.0
"""The recorder as a process of its own, before anything is loaded: arguments, meeting, refusals, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from netdiag.recorder import __main__ as module
from netdiag.recorder.link import Link
from netdiag.tracing.rendezvous import Rendezvous

LAUNCH = Path(module.__file__).with_name("launch.py")
COMMAND = [sys.executable, "-I", "-S", "-B", str(LAUNCH)]


class Recorder:
    """A started recorder, met."""

    def __init__(self, folder):
        with Rendezvous() as meeting:
            argv = [*COMMAND, "--socket", meeting.path, "--uid", str(os.geteuid())]
            self.process = subprocess.Popen(argv, cwd=folder, stderr=subprocess.PIPE, text=True)
            self.link: Link = meeting.accept(lambda peer: peer.pid == self.process.pid, timeout_s=10)

    def says(self):
        return self.link.receive(10)[0]

    def ended(self):
        """Return its exit status and what it wrote to stderr."""
        self.link.close()
        said = self.process.communicate(timeout=10)[1]
        return self.process.returncode, said


@pytest.fixture
def recorder(tmp_path):
    started = Recorder(tmp_path)
    yield started
    started.ended()


@pytest.mark.parametrize(
    "arguments", [[], ["--socket"], ["--socket", "/x"], ["--socket", "/x", "--uid", "root"], ["--uid", "0", "--socket"]]
)
def test_it_is_not_for_users(arguments, capsys):
    assert module.main(arguments) == 2
    assert "netdiag starts it" in capsys.readouterr().err


def test_a_socket_of_somebody_else_is_not_spoken_to(tmp_path):
    with Rendezvous() as meeting:
        argv = [*COMMAND, "--socket", meeting.path, "--uid", str(os.geteuid() + 1)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode != 0
    assert "belongs to user" in done.stderr


def test_it_leaves_no_image_of_its_memory():
    """What programs send and receive passes through it. PR_GET_DUMPABLE is 3, and 0 says that nothing is left."""
    asks = (
        "import ctypes, sys; from netdiag.recorder import __main__ as recorder;"
        "recorder._serve = lambda link: print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0));"
        "recorder.main(sys.argv[1:])"
    )
    with Rendezvous() as meeting:
        argv = [sys.executable, "-c", asks, "--socket", meeting.path, "--uid", str(os.geteuid())]
        with subprocess.Popen(argv, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True) as process:
            link = meeting.accept(lambda peer: peer.pid == process.pid, timeout_s=10)
            said = process.communicate(timeout=10)[0]
            link.close()
    assert said == "0\n"


def test_a_front_that_goes_without_a_word_ends_it(recorder):
    assert recorder.ended() == (0, "")


@pytest.mark.parametrize("message", [{"do": "stop"}, {"do": "start"}, {}])
def test_what_is_no_start_is_refused(message, recorder):
    recorder.link.send(message)
    said = recorder.says()
    assert (said["say"], said["exit_code"]) == ("error", 2)
    assert recorder.ended() == (2, "")


def test_an_unknown_probe_is_refused_in_words(recorder, tmp_path):
    with (tmp_path / "x.ndrec").open("w+b") as file:
        recorder.link.send({"do": "start", "probes": ["ndk"], "target": {}}, [file.fileno()])
        said = recorder.says()
    # where the kernel has no BTF that is said first
    assert (said["say"], said["exit_code"]) in {("error", 2), ("error", 5)}
    assert recorder.ended()[0] in {2, 5}


def test_a_recording_that_cannot_be_written_is_said(recorder, tmp_path):
    path = tmp_path / "x.ndrec"
    path.touch()
    with path.open("rb") as file:
        recorder.link.send({"do": "start", "probes": [], "target": {}}, [file.fileno()])
        said = recorder.says()
    assert said["say"] == "error"
    assert "the recording failed" in said["message"]
    assert recorder.ended() == (1, "")


def test_the_keyboard_and_the_terminal_do_not_end_it(recorder):
    """Ctrl-C reaches the front and the recorder; the front decides."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(recorder.process.pid, number)
    recorder.link.send({"do": "nothing"})
    assert recorder.says()["say"] == "error"


def test_it_works_in_no_folder_of_the_users(recorder):
    """Its signal handlers are set just before it changes the folder and connects, so by now it has."""
    assert Path(f"/proc/{recorder.process.pid}/cwd").readlink() == Path("/")
