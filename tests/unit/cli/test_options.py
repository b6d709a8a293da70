# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io

import pytest

from netdiag import render
from netdiag.cli import options
from tests.fakes.commands import call, recording_file


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("choice", "environ", "terminal", "wanted"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_when_to_colour(choice, environ, terminal, wanted):
    stream = Terminal() if terminal else io.StringIO()
    assert options.wants_color(choice, stream, environ) is wanted


def test_formats_and_lists_are_those_that_can_be_rendered():
    assert set(options.FORMATS) == set(render.FORMATS) - {"html"}
    assert options.LISTS == render.LISTS


def test_a_bad_assertion_is_found_before_anything_is_read(capsys):
    called = call(capsys, "analyze", "/nothing/here", "--assert", "connections~2")
    assert called.status == 2
    assert "connections~2" in called.err


@pytest.mark.parametrize(("name", "says"), [("", "it is a folder"), ("no/such/x.json", "there is no such folder")])
def test_a_bad_file_is_found_before_anything_is_read(capsys, tmp_path, name, says):
    called = call(capsys, "analyze", "/nothing/here", "-o", tmp_path / name)
    assert called.status == 2
    assert says in called.err


def test_colour_in_a_file_only_when_asked_for(capsys, tmp_path):
    recording, out = recording_file(tmp_path), tmp_path / "out.txt"
    call(capsys, "analyze", recording, "-o", out)
    assert "\x1b" not in out.read_text()
    call(capsys, "analyze", recording, "-o", out, "--color", "always")
    assert "\x1b[" in out.read_text()
