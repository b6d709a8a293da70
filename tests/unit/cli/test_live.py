# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
from pathlib import Path

import pytest

from netdiag.cli.live import Progressing
from netdiag.cli.main import run
from netdiag.tracing.request import Progress
from tests.fakes.commands import recording_file


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Gone(Terminal):
    def write(self, *_text):
        raise BrokenPipeError


def progress(state="tracing", elapsed_s=0.0, recording=Path("/nothing")):
    return Progress(state=state, elapsed_s=elapsed_s, recording=recording, recorded_bytes=64_000, command_pid=None)


def test_each_connection_that_ended_has_its_line(tmp_path):
    out = io.StringIO()
    shown = Progressing(lines=True, counter=False, stream=out)
    shown(progress("armed", recording=recording_file(tmp_path)))
    shown(progress(recording=recording_file(tmp_path)))
    shown.close()
    head, *lines = out.getvalue().splitlines()
    assert head.split()[:3] == ["time", "s", "process"]
    assert len(lines) == 6
    assert all("local FIN" in line for line in lines)


def test_a_counter_shows_after_a_second_and_goes_away():
    out = Terminal()
    shown = Progressing(lines=False, counter=True, stream=out)
    shown(progress(elapsed_s=0.5))
    assert out.getvalue() == ""
    shown(progress(elapsed_s=12.0))
    assert "12 s, 64.0 kB recorded" in out.getvalue()
    shown.close()
    assert out.getvalue().endswith("\r\x1b[K")


def test_no_counter_without_a_terminal():
    out = io.StringIO()
    shown = Progressing(lines=False, counter=True, stream=out)
    shown(progress(elapsed_s=12.0))
    shown.close()
    assert out.getvalue() == ""


def test_nothing_is_shown_where_nothing_was_asked_for():
    out = Terminal()
    shown = Progressing(lines=False, counter=False, stream=out)
    shown(progress(elapsed_s=12.0))
    shown.close()
    assert out.getvalue() == ""


def test_a_file_that_is_no_recording_ends_the_lines_quietly(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"something else, long enough to see that it is none")
    shown = Progressing(lines=True, counter=False, stream=io.StringIO())
    shown(progress(recording=path))
    shown.close()


def test_a_reader_that_went_away_does_not_end_the_trace():
    shown = Progressing(lines=False, counter=True, stream=Gone())
    shown(progress(elapsed_s=5.0))
    shown.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["live"], "terminal"),
        (["live", "last"], "terminal"),
        (["live", "python", "app.py"], "a command after --"),
        (["live", "--duration", "-1", "--", "true"], "--duration"),
        (["live", "--pid", "1", "file"], "a command after --"),
    ],
)
def test_what_cannot_be_shown_is_said_before_anything_starts(words, said, capsys):
    assert run(words) == 2
    assert said in capsys.readouterr().err
