# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import jsonschema
import pytest

from netdiag.assets import data_dir
from netdiag.testing import RecordingBuilder
from tests.fakes.commands import call


def recording(path, calls=40, *, wait=40.0, keep=False, step=100.0):
    made = RecordingBuilder().process(100)
    if keep:
        exchange = [
            one for at in range(calls) for one in (("send", step * at + 1, 200), ("receive", step * at + 1 + wait, 900))
        ]
        made.connection(exchange, opened=0, closed=("local", step * calls))
    else:
        for number in range(calls):
            at = step * number
            made.connection(
                [("send", at + 1, 200), ("receive", at + 1 + wait, 900)], opened=at, closed=("local", at + wait + 12)
            )
    path.write_bytes(made.to_bytes(end="command-exited"))
    return path


def test_what_is_the_same_passes(capsys, tmp_path):
    one, two = recording(tmp_path / "a.netdiag"), recording(tmp_path / "b.netdiag")
    called = call(capsys, "compare", one, two)
    assert (called.status, called.err) == (0, "")
    assert called.out.startswith("OK")


def test_what_got_slower_ends_with_three_and_what_got_faster_does_not(capsys, tmp_path):
    one, two = recording(tmp_path / "a.netdiag"), recording(tmp_path / "b.netdiag", wait=70.0)
    called = call(capsys, "compare", one, two, "--format", "json")
    assert called.status == 3
    document = json.loads(called.out)
    jsonschema.validate(document, json.loads((data_dir("reports") / "schemas" / "netdiag.compare-1.json").read_text()))
    assert [row["rule"] for row in document["comparisons"][0]["gate"] if row["raised"]] == ["total p99 +15 ms"]
    assert call(capsys, "compare", two, one).status == 0
    assert call(capsys, "compare", one, two, "--no-gate").status == 0
    (tmp_path / "gate.toml").write_text('[[rule]]\nmetric = "server"\nstatistic = "p50"\nlimit = 90\n')
    assert call(capsys, "compare", one, two, "--gate", tmp_path / "gate.toml").status == 0


def test_lost_keep_alive(capsys, tmp_path):
    one, two = recording(tmp_path / "a.netdiag", keep=True), recording(tmp_path / "b.netdiag")
    called = call(capsys, "compare", one, two)
    assert called.status == 3
    assert "WORSE  reuse -20 points" in called.out
    assert "new  reuse.client-per-call" in called.out


def test_a_new_cause_ends_with_three_where_that_was_asked(capsys, tmp_path):
    one, two = recording(tmp_path / "a.netdiag", keep=True), recording(tmp_path / "b.netdiag")
    called = call(capsys, "compare", one, two, "--no-gate", "--fail-on", "warning")
    assert called.status == 3
    assert "--fail-on warning: new in B: reuse.client-per-call" in called.err
    assert call(capsys, "compare", two, two, "--no-gate", "--fail-on", "info").status == 0
    assert call(capsys, "compare", two, one, "--no-gate", "--fail-on", "info").status == 0


def test_groups_of_one_recording(capsys, tmp_path):
    made = RecordingBuilder().process(100)
    for number in range(60):
        at, slow = 100.0 * number, number % 3 == 0
        made.connection(
            [("send", at + 1, 200), ("receive", at + (71 if slow else 31), 900)],
            opened=at,
            closed=("local", at + 90),
            daddr="127.0.0.2" if slow else "127.0.0.1",
        )
    (tmp_path / "c.netdiag").write_bytes(made.to_bytes(end="command-exited"))
    called = call(capsys, "compare", tmp_path / "c.netdiag", "--split", "ip", "--format", "markdown")
    assert called.status == 3
    assert "A: 127.0.0.1 (group), 40 requests" in called.out
    turned = call(capsys, "compare", tmp_path / "c.netdiag", "--split", "ip", "--against", "127.0.0.2")
    assert turned.status == 0
    missing = call(capsys, "compare", tmp_path / "c.netdiag", "--split", "ip", "--against", "x")
    assert "there are: 127.0.0.1, 127.0.0.2" in missing.err


@pytest.mark.parametrize(
    "words",
    [
        ["A"],
        ["A", "A", "A"],
        ["A", "A", "--split", "ip"],
        ["A", "--split", "ip"],
        ["A", "A", "--against", "x"],
        ["A", "A", "--gate", "x", "--no-gate"],
        ["baseline", "baseline"],
    ],
)
def test_wrong_words(capsys, tmp_path, words):
    path = recording(tmp_path / "a.netdiag", 4)
    assert call(capsys, "compare", *[path if word == "A" else word for word in words]).status == 2


def test_an_input_that_cannot_be_read(capsys, tmp_path):
    assert call(capsys, "compare", tmp_path / "none", tmp_path / "none").status == 6


def test_with_a_baseline(capsys, tmp_path, monkeypatch):
    from netdiag import loading
    from netdiag.cli.baseline import remember

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    one, two = recording(tmp_path / "a.netdiag"), recording(tmp_path / "b.netdiag", wait=70.0)
    assert call(capsys, "compare", "baseline", two).status == 6
    loaded = loading.load(one)
    assert "remembered 1 scenario" in remember(loaded.recording, loaded.tables)
    called = call(capsys, "compare", "baseline", two)
    assert called.status == 3
    assert "A  baseline (baseline): 40 requests" in called.out
    assert call(capsys, "compare", "baseline", one).status == 0
