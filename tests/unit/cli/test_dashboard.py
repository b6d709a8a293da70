# SPDX-License-Identifier: Apache-2.0
"""`netdiag live` in a real terminal: opened, left, and the terminal as it was."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from netdiag.cli import dashboard
from netdiag.cli.dashboard import trace_arguments
from netdiag.errors import InputUnreadable
from netdiag.processes import Target
from tests.fakes import loads
from tests.fakes.commands import recording_file
from tests.fakes.routes import checked

CHOSEN = {
    "save": None, "no_keep": False, "duration": None, "slow_ms": 500.0, "plain": False, "calm": False,
    "save_packets": None, "probes": None, "if_unavailable": "fail", "as_root": False, "keep_argv": False,
}  # fmt: skip


def test_the_trace_gets_the_words_that_were_given():
    target = Target(pids=(7, 8), hosts=("api",), ports=(443,), follow=False)
    words = trace_arguments(target, (), CHOSEN | {"duration": 2.5, "no_keep": True}, Path("/x/y"))
    assert words == [
        "--no-live-lines", "--slow-ms", "500", "--save", "/x/y", "--pid", "7", "--pid", "8", "--port", "443",
        "--host", "api", "--no-follow", "--no-keep", "--duration", "2.5", "--if-unavailable", "fail",
    ]  # fmt: skip
    more = {"save_packets": Path("/x/p"), "probes": "tcp,tls", "if_unavailable": "run", "as_root": True}
    assert trace_arguments(Target(), (), CHOSEN | more | {"keep_argv": True}, None) == [
        "--no-live-lines", "--slow-ms", "500", "--save-packets", "/x/p", "--probe", "tcp,tls",
        "--if-unavailable", "run", "--as-root", "--keep-argv",
    ]  # fmt: skip
    assert trace_arguments(Target(), ("ls", "--pid"), CHOSEN, None)[-3:] == ["--", "ls", "--pid"]


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, *words: str, **environment: str) -> None:
        self.master, slave = pty.openpty()
        os.set_inheritable(slave, True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "netdiag", *words],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **environment},
        )  # fmt: skip
        os.close(slave)
        self.seen = b""

    def read(self, until: bytes, timeout_s: float = 60) -> bool:
        deadline = time.monotonic() + timeout_s
        while until not in self.seen and time.monotonic() < deadline:
            if not select.select([self.master], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            if not data:
                break
            self.seen += data
        return until in self.seen

    def leave(self) -> int:
        os.write(self.master, b"q")
        self.read(b"\x1b[?1049l")
        status = self.process.wait(timeout=60)
        self.read(b"\0never", 1)
        os.close(self.master)
        return status


def test_a_recording_opens_and_the_terminal_is_left_clean(tmp_path):
    terminal = Terminal("live", str(recording_file(tmp_path)))
    assert terminal.read(b"process")
    assert terminal.leave() == 0
    for switched in (b"?1049", b"?1000", b"?1003", b"?2004", b"?25"):  # alternate screen, mouse, paste, cursor
        on, off = (b"l", b"h") if switched == b"?25" else (b"h", b"l")
        last_on, last_off = (
            terminal.seen.rfind(b"\x1b[" + switched + on),
            terminal.seen.rfind(b"\x1b[" + switched + off),
        )
        assert last_off >= last_on, switched


def test_no_color_means_no_colour(tmp_path):
    terminal = Terminal("live", str(recording_file(tmp_path)), NO_COLOR="1")
    assert terminal.read(b"process")
    terminal.leave()
    codes = {code for found in re.findall(rb"\x1b\[([0-9;]*)m", terminal.seen) for code in found.split(b";")}
    assert not codes & {b"31", b"32", b"33", b"34", b"35", b"36", b"91", b"92", b"93", b"94"}
    hues = re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", terminal.seen)
    assert all(red == green == blue for red, green, blue in hues)


@pytest.mark.parametrize(
    ("content", "status", "said"), [(b"hello there", 6, b"no recording"), (None, 6, b"No such file")]
)
def test_what_is_no_recording_is_said_in_the_terminal(tmp_path, content, status, said):
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)
    terminal = Terminal("live", str(path))
    assert terminal.read(said)
    assert terminal.process.wait(timeout=30) == status


def _shown(monkeypatch: pytest.MonkeyPatch, path: Path) -> Any:
    taken: list[Any] = []
    monkeypatch.setattr(dashboard, "_run", taken.append)
    dashboard._stored(path, {"calm": True, "plain": False, "slow_ms": 500.0})
    return taken[0]


def test_the_document_of_a_load_of_weights_is_shown(monkeypatch, tmp_path):
    (tmp_path / "w.json").write_text(json.dumps(loads.document()))
    app = _shown(monkeypatch, tmp_path / "w.json")
    assert app.snapshot.weights["schema"] == "netdiag.weights/1"
    assert app._first == "weights"


def test_the_document_of_a_check_is_shown(monkeypatch, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(checked()))
    app = _shown(monkeypatch, tmp_path / "r.json")
    assert list(app._routes([])) == ["api.example.com"]
    assert app._first == "routes"


@pytest.mark.parametrize("content", ["{", "{}", '{"schema": "netdiag.weights/1"}', '{"schema": "netdiag.trace/1"}'])
def test_other_documents_are_told(monkeypatch, tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputUnreadable):
        _shown(monkeypatch, tmp_path / "x.json")
