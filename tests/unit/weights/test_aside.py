# SPDX-License-Identifier: Apache-2.0
"""A process beside a load: told lines, ended by the end of its input or by force, read line by line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from netdiag.weights.aside import Aside

ECHO = """
import sys
for line in sys.stdin:
    print('{"told": "%s"}' % line.strip(), flush=True)
print('[1]')
print('{"cut', end='')
"""
STUBBORN = """
import time
print('{"said": 1}', flush=True)
time.sleep(60)
"""


@pytest.fixture
def module(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "echo_aside.py").write_text(ECHO)
    (tmp_path / "stubborn_aside.py").write_text(STUBBORN)
    return {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}


def test_it_is_told_lines_and_leaves_rows_only(module: dict[str, str]) -> None:
    aside = Aside("echo_aside", stop_s=20, environment=module)
    assert aside.tell("one")
    assert aside.tell("two")
    assert aside.stop() == [{"told": "one"}, {"told": "two"}]


def test_one_that_does_not_end_is_killed_and_what_it_said_stays(module: dict[str, str]) -> None:
    aside = Aside("stubborn_aside", stop_s=0.1, environment=module)
    end = time.monotonic() + 20
    while not aside._out.tell() and time.monotonic() < end:  # the descriptor's place moves with what it writes
        time.sleep(0.01)
    assert aside.stop() == [{"said": 1}]


def test_one_that_is_gone_is_told_nothing(module: dict[str, str]) -> None:
    aside = Aside("no_such_module_aside", stop_s=20, environment=module)
    aside._process.wait(20)
    assert not aside.tell("x" * 100_000)
    assert aside.stop() == []


def test_words_are_passed() -> None:
    aside = Aside("json.tool", "--compact", stop_s=20)
    assert aside.tell('{"a": 1}')
    assert aside.stop() == [{"a": 1}]
