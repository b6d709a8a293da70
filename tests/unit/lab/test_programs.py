# SPDX-License-Identifier: Apache-2.0
"""Which clients are at hand and how they are started."""

from __future__ import annotations

import json
import sys

import pytest

from netdiag.errors import Unsupported
from netdiag.lab import programs
from netdiag.lab.programs import Programs, lab_python

URL = "http://127.0.0.1:9/v1/chat/completions"


def test_the_standard_library_is_always_there():
    assert {"stdlib", "urllib"} <= set(Programs(python=None).at_hand())
    assert "httpx" not in Programs(python=None).at_hand()


def test_the_plan_is_a_file_so_that_no_command_line_tells_the_habit(tmp_path):
    client = {"library": "stdlib", "habit": "per_call", "calls": 3, "hosts": ["127.0.0.1"]}
    argv = Programs(python=None).argv(client, [URL], tmp_path)
    assert argv[0] == sys.executable
    assert not any("per_call" in word for word in argv)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan == {"library": "stdlib", "habit": "per_call", "calls": 3, "urls": [URL]}


def test_a_library_that_is_missing_is_named(tmp_path):
    with pytest.raises(Unsupported, match="needs httpx"):
        Programs(python=None).argv({"library": "httpx", "habit": "session"}, [URL], tmp_path)


def test_other_programs_take_the_plan_too(tmp_path):
    mine = Programs(python=None, extra={"go": "/bin/true"})
    assert mine.argv({"library": "go", "habit": "per_call"}, [URL], tmp_path) == [
        "/bin/true",
        str(tmp_path / "plan.json"),
    ]


def test_curl_calls_once_a_process_or_all_in_one(tmp_path):
    loop = programs.curl({"habit": "per_process", "calls": 3, "urls": [URL]}, tmp_path)
    assert "CALLS=3" in loop
    assert f"URL={URL}" in loop
    one = programs.curl({"habit": "session", "calls": 3, "urls": [URL]}, tmp_path)
    assert one[:2] == ["curl", "--config"]
    assert (tmp_path / "curl.conf").read_text().count(URL) == 3


def test_the_environment_names_the_interpreter(monkeypatch, tmp_path):
    monkeypatch.setenv("NETDIAG_LAB_PYTHON", "/opt/lab/bin/python")
    assert lab_python() == "/opt/lab/bin/python"
    monkeypatch.delenv("NETDIAG_LAB_PYTHON")
    monkeypatch.setattr(programs, "lab_folder", lambda: tmp_path)
    assert lab_python() is None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert lab_python() == str(tmp_path / "bin" / "python")
