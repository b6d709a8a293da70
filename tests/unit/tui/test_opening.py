# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import pytest

from netdiag.testing import RecordingBuilder
from netdiag.tui import opening
from netdiag.tui.model import Snapshot, State


@pytest.mark.parametrize(
    ("end", "over", "state"),
    [
        ("command ended", True, State.FINISHED),
        ("front-gone", True, State.TRUNCATED),
        (None, False, State.LIVE),
        (None, True, State.TRUNCATED),
    ],
)
def test_how_it_stands(end, over, state):
    part = dataclasses.replace(RecordingBuilder().recording(end=end), truncated_at=None)
    assert opening.state_of(part, over=over)[0] is state


def test_where_it_breaks_off_is_said():
    part = dataclasses.replace(RecordingBuilder().recording(), truncated_at=90, truncated_why="a block is incomplete")
    assert opening.state_of(part, over=True) == (State.TRUNCATED, "it breaks off at byte 90: a block is incomplete")


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ({"command": {"argv": ["/usr/bin/python3", "app.py"]}}, "python3 app.py"),
        ({"command": {"argv": None}, "target": {"pids": [7]}}, "pid 7"),
        ({"command": {"argv": "x"}}, "the whole machine"),
        ({"tier": "capture"}, "a capture"),
        ({"command": {"argv": ["evil\x1b[2J"]}}, "evil\\x1b[2J"),
    ],
)
def test_what_was_traced(header, what):
    assert opening.about(RecordingBuilder(**header).recording(), Snapshot())["what"] == what
