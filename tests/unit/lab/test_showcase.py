# SPDX-License-Identifier: Apache-2.0
"""What a person watches."""

from __future__ import annotations

import io
import sys

import pytest

from netdiag.errors import UsageError
from netdiag.lab import showcase
from netdiag.lab.programs import STANDARD


def test_every_code_has_one_scenario_in_order():
    codes = showcase.list_codes()
    assert list(codes) == sorted(codes)
    assert codes["reuse.client-per-call"].name == "client-per-call"
    assert all(code in scenario.about for code, scenario in codes.items())


def test_a_scenario_is_found_by_name_and_by_code():
    assert showcase.find("server-idle-timeout") == showcase.find("reuse.server-idle-timeout")
    with pytest.raises(UsageError, match="no scenario nonsense"):
        showcase.find("nonsense")


def test_the_demo_needs_nothing_but_python(tmp_path):
    """A stand-in for netdiag records the client's command and lets it run."""
    program = tmp_path / "stand-in.py"
    program.write_text(
        "import pathlib, subprocess, sys\n"
        "words = sys.argv[sys.argv.index('--') + 1:]\n"
        f"pathlib.Path({str(tmp_path / 'argv')!r}).write_text(words[0])\n"
        "sys.exit(subprocess.run(words).returncode)\n"
    )
    said = io.StringIO()
    assert showcase.demo(netdiag=[sys.executable, str(program)], seed=4, out=said) == 0
    assert (tmp_path / "argv").read_text() == sys.executable
    assert "seed 4" in said.getvalue()
    assert any(f"library {name}" in said.getvalue() for name in STANDARD)
