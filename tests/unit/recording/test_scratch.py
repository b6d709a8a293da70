# SPDX-License-Identifier: Apache-2.0
"""A folder for temporary files that is full is told in a sentence, with the exit status of the contract."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from netdiag.capture import spool
from netdiag.capture.layouts import rows
from netdiag.cli import results
from netdiag.cli.main import run
from netdiag.errors import Unsupported
from netdiag.recording.scratch import guarded, scratch
from netdiag.tables.kept import Grown
from netdiag.tables.schema import COLUMNS
from tests.fakes import packets as p


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files with room for one page."""
    if os.geteuid():
        pytest.skip("a small file system cannot be mounted without root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "small", str(folder)], check=True)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def spooled() -> None:
    waiting = spool.Spool()
    try:
        for _ in range(20):
            waiting.add("tcp_io", rows("tcp_io", 100))
        waiting.runs()
    finally:
        waiting.close()


def grown() -> None:
    names = COLUMNS["retransmits"]
    row = {name: "send" if kind == "object" else 1 for name, kind in names.items()}
    table = Grown("retransmits")
    for _ in range(20):
        table.add(pd.DataFrame([row] * 100).astype(dict(names)))
    table.frame()


@pytest.mark.parametrize("work", [spooled, grown])
def test_a_full_disk_is_no_traceback(full: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    monkeypatch.setattr(spool, "SPOOL_BYTES", 1000)
    with pytest.raises(Unsupported, match="has no room") as told:
        work()
    assert str(full) in told.value.message
    assert "TMPDIR" in str(told.value.hint)


@pytest.mark.parametrize("apart", [False, True])
def test_analyze_says_it_and_ends_with_5(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, apart: bool
) -> None:
    talk = p.Talk(server=("10.0.0.2", 80)).open()
    for _ in range(200):
        talk.ask(p.REQUEST, p.ANSWER)
    (tmp_path / "long.pcap").write_bytes(talk.close().file())
    monkeypatch.setattr(spool, "SPOOL_BYTES", 1000)
    monkeypatch.setattr(results, "_LARGE", 0 if apart else 1 << 40)
    assert run(["analyze", str(tmp_path / "long.pcap")]) == 5
    told = capsys.readouterr()
    assert told.out == ""
    assert f"netdiag: error: {full} has no room" in told.err
    assert "Traceback" not in told.err


def test_where_no_file_can_be_made_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(Unsupported, match=r"cannot be kept in .*gone"):
        scratch()

    def nowhere() -> Any:
        raise FileNotFoundError(2, "No usable temporary directory found in", "/")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    with pytest.raises(Unsupported, match="any folder"), guarded():
        nowhere()


def test_with_room_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(spool, "SPOOL_BYTES", 1000)
    spooled()
    grown()
    assert list(tmp_path.iterdir()) == []
