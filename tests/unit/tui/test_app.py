# SPDX-License-Identifier: Apache-2.0
"""Every key on every screen, driven as a person does."""

from __future__ import annotations

import asyncio
import csv
import json

import pytest

from netdiag import testing
from netdiag.tui.app import Dashboard
from netdiag.tui.messages import Taken
from netdiag.tui.model import State
from tests.fakes import dashboards
from tests.fakes.dashboards import press

CHOSEN = ("stream.server-stall", None, 100, "192.0.2.1:443")


def test_the_cause_is_in_sight_without_a_key():
    text = press()
    assert "CRITICAL 0.7 of 1.0 s in a stall: the server sent nothing for 700 ms" in text
    assert text.index("CRITICAL") < text.index("process")


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (("enter",), ("finding", "proof", "one gap far above the others", "client = OpenAI()", "evidence")),
        (("enter", "tab", "enter"), ("r1 POST /v1/chat", "pauses up to", "server   the window stood open")),
        (("enter", "tab", "down", "enter"), ("connection c2", "refused: ECONNREFUSED")),
        (("enter", "tab", "down", "down", "enter"), ("connection c1", "ClientHello", "waited for")),
        (("w",), ("3 requests", "POST /v1/chat", "receive")),
        (("tab", "enter"), ("1 request of 100 python3 to api.example.com",)),
        (("tab", "down", "enter"), ("2 requests of 200 node to 192.0.2.7:8000",)),
        (("w", "home", "enter"), ("r1 POST /v1/chat", "p95 700 ms")),
        (("w", "home", "enter", "c"), ("connection c1", "by this program (FIN)")),
        (("w", "end", "enter"), ("connection c3", "2 requests")),
        (("question_mark",), ("help", "go back", "never a zero")),
    ],
)
def test_each_screen_opens(keys, shown):
    text = press(*keys, size=(80, 40))
    for part in shown:
        assert part in text


@pytest.mark.parametrize("keys", [("enter",), ("w",), ("question_mark",), ("w", "home", "enter"), ("w", "c")])
def test_escape_leads_back_to_the_first_screen(keys):
    assert "process" in press(*keys, *["escape"] * len(keys), "escape")


def test_the_evidence_that_is_not_there_is_said():
    assert "r99 is not among" in press("enter", "tab", "end", "enter", size=(100, 40))


def test_a_filter_narrows_and_escape_clears_it():
    typed = press("slash", *"port", "space", *"8000", "enter")
    assert "200 node" in typed
    assert "100 python3" not in typed
    assert "filter: port 8000" in typed
    cleared = press("slash", *"port", "space", *"8000", "enter", "escape")
    assert "100 python3" in cleared
    assert "filter:" not in cleared


def test_a_wrong_filter_says_what_is_wrong_and_is_not_taken():
    text = press("slash", *"pid", "space", "x", "enter")
    assert "pid takes a number, not 'x'" in text
    assert "filter:" not in press("slash", *"pid", "space", "x", "enter", "escape")


def test_a_filter_holds_for_requests_too():
    text = press("w", "slash", *"error", "enter")
    assert text.startswith("1 request ")
    assert "500" in text


def test_sorting_goes_round_the_columns():
    assert "sorted by requests" in press("s")
    assert "sorted by" not in press(*"sssss")
    text = press("w", "s")
    assert "sorted by total" in text
    assert text.index("950 ms") < text.index("40 ms")


def test_space_holds_the_screen_still_and_goes_on():
    later = dashboards.snapshot(length_s=77.0)

    async def send(app, pilot):
        app.post_message(Taken(later))
        await pilot.pause()

    assert "2.00 s" in press("space", then=send)

    async def go_on(app, pilot):
        await send(app, pilot)
        await pilot.press("space")

    held = press("space", then=go_on)
    assert "77.0 s" in held
    assert "PAUSED" not in held


@pytest.mark.parametrize("kind", ["s", "c", "j"])
def test_what_is_on_the_screen_goes_into_a_file(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    assert "written: netdiag-overview." in press("e", kind, "enter", size=(120, 30))
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    if kind == "s":
        assert text.startswith("<svg")
    elif kind == "c":
        assert ["100 python3", "api.example.com", "1"] in [row[:3] for row in csv.reader(text.splitlines())]
    else:
        assert json.loads(text)["hosts"][0]["host"] == "api.example.com"


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("netdiag.tui.export.write", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Denied")))
    assert "Denied" in press("e", "j", "enter", size=(120, 30))


def test_the_palette_opens_and_q_quits():
    async def run():
        app = Dashboard(None, snapshot=dashboards.snapshot())
        async with app.run_test() as pilot:
            await pilot.press("colon")
            assert type(app.screen).__name__ == "CommandPalette"
            await pilot.press("escape", "q")
        return app.return_code

    assert asyncio.run(run()) == 0


def test_the_mouse_moves_the_cursor_and_opens():
    async def click(_, pilot):
        await pilot.click("#hosts", offset=(3, 2))
        await pilot.click("#hosts", offset=(3, 2))

    assert "2 requests of 200 node" in press(then=click)


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ({"state": State.LIVE}, "LIVE"),
        ({"state": State.QUIET, "why": "nothing was written for 10 s"}, "nothing was written for 10 s"),
        ({"state": State.TRUNCATED, "why": "it breaks off at byte 90"}, "it breaks off at byte 90"),
        ({"lost": 1234}, "1,234 events lost"),
        ({"lost": None}, "losses unknown"),
    ],
)
def test_how_the_recording_stands_is_said(more, shown):
    assert shown in press(shown=dashboards.snapshot(**more))


def test_new_findings_are_marked():
    assert "● CRITICAL" in press()
    assert "● CRITICAL" not in press(shown=dashboards.snapshot(fresh=frozenset()))


EVERYWHERE = ((), ("enter",), ("escape", "w"), ("home", "enter"), ("c",), ("question_mark",))
"""Keys from one screen to the next, over all of them."""


@pytest.mark.parametrize("size", [(80, 24), (300, 80), (40, 10)])
def test_no_line_is_wider_than_the_terminal(size):
    async def walk(app, pilot):
        for keys in EVERYWHERE:
            await pilot.press(*keys)
            await pilot.pause()
            lines = dashboards.text_of(app).splitlines()
            assert len(lines) == size[1]
            assert all(len(line) <= size[0] for line in lines)

    press(size=size, then=walk)


def test_plain_mode_draws_with_ascii_alone():
    text = press("w", plain=True)
    assert "█" not in text
    assert "R" in text.splitlines()[3]


def test_an_empty_trace_is_no_error():
    empty = dashboards.examination(testing.tables(), [])
    assert "no request was seen" in press("enter", "tab", "enter", "w", "enter", "c", shown=dashboards.snapshot(empty))
    assert "No connection was seen." in press(shown=dashboards.snapshot(empty))


def test_hostile_names_are_shown_as_they_are():
    built = dashboards.tables()
    built.requests["host"] = built.requests["path"] = dashboards.HOSTILE
    built.connections["remote_name"] = dashboards.HOSTILE
    exam = dashboards.examination(built, [dashboards.finding(title=dashboards.HOSTILE, code=dashboards.HOSTILE)])
    shown = dashboards.snapshot(
        exam, programs=dict.fromkeys((100, 200), dashboards.HOSTILE), what="x", why=dashboards.HOSTILE
    )

    async def walk(app, pilot):
        for keys in EVERYWHERE[:-1]:
            await pilot.press(*keys)
            await pilot.pause()
            text = dashboards.text_of(app)
            assert "\x1b" not in text
            assert "\u202e" not in text
            assert "\\x1b" in text

    press(shown=shown, size=(120, 30), then=walk)
