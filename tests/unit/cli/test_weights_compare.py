# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from netdiag.weights.compare import METHODS
from tests.fakes.commands import call


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "m\x1b[31m.gguf"
    path.write_bytes(bytes(1 << 20))
    return path


def test_the_table_has_a_line_for_each_way(capsys, path):
    called = call(capsys, "weights", "compare", path, "--repeat", 1)
    assert (called.status, called.err) == (0, "")
    assert [words in called.out for words, _ in METHODS.values()] == [True] * 4
    assert "1.05 MB, the fastest of 1" in called.out
    assert "warm only; --cold" in called.out
    assert "cold  " not in called.out
    assert "\x1b" not in called.out
    assert max(map(len, called.out.splitlines()[1:6])) <= 80


def test_cold_runs_come_first_and_leave_nothing(capsys, path):
    called = call(capsys, "weights", "compare", path, "--repeat", 1, "--cold")
    lines = called.out.splitlines()[2:10]
    assert [line.split()[0] for line in lines] == ["cold"] * 4 + ["warm"] * 4
    assert "warm only" not in called.out
    assert list(path.parent.iterdir()) == [path]


def test_json_is_one_object(capsys, path):
    found = json.loads(call(capsys, "weights", "compare", path, "--repeat", 1, "--format", "json").out)
    assert (found["file"], found["bytes"]) == (str(path), 1 << 20)
    assert [one["method"] for one in found["runs"]] == list(METHODS)
    assert found["why"]


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [(("none",), 6, "No such file"), (("none", "--repeat", 0), 2, "repeat"), ((), 2, "FILE")],
)
def test_what_cannot_be_done(capsys, args, status, words):
    called = call(capsys, "weights", "compare", *args)
    assert words in called.err
    assert called.status == status
    assert called.out == ""
