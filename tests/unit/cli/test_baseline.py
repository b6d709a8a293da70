# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from netdiag.cli import baseline
from tests.fakes import calls
from tests.fakes.commands import call


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def learn(**changes):
    source = calls.source(**changes)
    return baseline.remember(source.recording, source.tables)


def test_the_table(capsys):
    assert learn() == "remembered 3 scenarios: netdiag baseline show"
    assert learn() == "this recording was remembered before"
    called = call(capsys, "baseline", "show")
    assert called.status == 0
    assert "api.example.com · gpt-x · streamed" in called.out
    assert called.out.count("σ/μ") == 3
    assert max(map(len, called.out.splitlines())) <= 80


def test_json_and_filters(capsys):
    learn()
    rows = json.loads(call(capsys, "baseline", "show", "--format", "json", "--host", "198.51.100.7").out)["scenarios"]
    assert {row["dimension"]: row["n"] for row in rows} == {"api": 5, "network": 5, "service": 5}
    assert next(row for row in rows if row["dimension"] == "api")["mean"] == 46.0
    assert call(capsys, "baseline", "show", "--hour", "5").out == "Nothing was remembered for that.\n"


def test_forget(capsys):
    learn()
    assert "forgot 1 scenario" in call(capsys, "baseline", "forget", "--host", "198.51.100.7").err
    assert "forgot 2 scenarios" in call(capsys, "baseline", "forget").err


def test_there_is_none(capsys):
    called = call(capsys, "baseline", "show")
    assert called.status == 6
    assert "--remember" in called.err


def test_the_services_word(capsys):
    learn()
    called = call(capsys, "baseline", "show", "--health", "http://127.0.0.1:9/v1/models")
    assert "health   http://127.0.0.1:9/v1/models: no answer" in called.out
    assert call(capsys, "baseline", "show", "--health", "nothing").status == 2


def test_the_service_is_asked_again_and_again(capsys, monkeypatch):
    from netdiag.baseline import health

    answers = iter([(200, b'{"data": [1, 2]}'), (503, b""), (200, b'{"data": [1, 2, 3]}')])
    pauses: list[float] = []
    monkeypatch.setattr("netdiag.web.ask", lambda *_, **__: next(answers))
    monkeypatch.setattr(health.poll, "__defaults__", (pauses.append,))
    learn()
    asked = ("--health", "http://127.0.0.1:9/v1/models", "--every", "7", "--times", "3")
    told = call(capsys, "baseline", "show", *asked).out
    assert "it says: 3 models" in told
    assert "asked 3 times, 1 without a good answer" in told
    assert pauses == [7.0, 7.0]


def test_asking_again_stops_where_somebody_interrupts(capsys, monkeypatch):
    from netdiag.baseline import health

    def interrupt(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("netdiag.web.ask", lambda *_, **__: (200, b"{}"))
    monkeypatch.setattr(health.poll, "__defaults__", (interrupt,))
    learn()
    asked = ("--health", "http://127.0.0.1:9/v1/models", "--every", "7", "--format", "json")
    told = json.loads(call(capsys, "baseline", "show", *asked).out)["health"]
    assert (told["asked"], told["failed"]) == (1, 0)


@pytest.mark.parametrize("words", [("--every", "5"), ("--health", "http://127.0.0.1:9/", "--times", "3")])
def test_words_that_miss_others(capsys, words):
    learn()
    assert call(capsys, "baseline", "show", *words).status == 2


def test_hostile_names(capsys):
    learn(hostile=calls.HOSTILE)
    assert "\x1b" not in call(capsys, "baseline", "show").out
