# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import netdiag
from netdiag.errors import InputUnreadable
from tests.fakes import commands

CAPTURES = Path(__file__).resolve().parents[1] / "captures"


def test_tables_and_findings(tmp_path, capsys):
    path = commands.recording_file(tmp_path)
    loaded = netdiag.load(path)
    assert len(loaded.requests) == 6
    assert loaded.connections is loaded.tables.connections
    assert [finding.code for finding in loaded.findings] == [row["code"] for row in loaded.document["findings"]]
    assert "requests" in dir(loaded)
    assert "6 requests" in repr(loaded)
    assert "<table>" in loaded._repr_html_()
    printed = json.loads(commands.call(capsys, "analyze", path, "--format", "json").out)
    assert printed == loaded.document


def test_what_is_no_table_is_no_attribute(tmp_path):
    with pytest.raises(AttributeError):
        _ = netdiag.load(commands.recording_file(tmp_path)).nothing
    with pytest.raises(AttributeError):
        _ = netdiag.nothing


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(InputUnreadable):
        netdiag.load(tmp_path / "none")
    (tmp_path / "x").write_bytes(b"no recording")
    with pytest.raises(InputUnreadable):
        netdiag.load(tmp_path / "x")


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, netdiag; print([name for name in sys.modules if name.split('.')[0] in ('numpy', 'pandas')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
