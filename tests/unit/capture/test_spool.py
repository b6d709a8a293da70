# SPDX-License-Identifier: Apache-2.0
"""Records of a capture that wait in a file come back whole, each stream's in order of connections and time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netdiag.capture import spool
from netdiag.capture.layouts import rows
from netdiag.capture.spool import Spool
from netdiag.recording.reader import Records


def made(stream: str, cookies: list[int], since: int) -> Records:
    """Return records of these connections, each a nanosecond after the one before."""
    table = rows(stream, len(cookies))
    table["cookie"], table["time"] = cookies, np.arange(since, since + len(cookies))
    return table


def test_little_stays_as_it_came() -> None:
    waiting = Spool()
    first, second = made("tcp_io", [2, 1], 10), made("tcp_io", [1], 12)
    waiting.add("tcp_io", first)
    waiting.add("tcp_io", second)
    waiting.add("tls_record", rows("tls_record", 0))
    (one, other) = waiting.runs()["tcp_io"]
    assert one is first
    assert other is second
    assert "tls_record" not in waiting.runs()


def test_much_lies_in_a_file_by_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "SPOOL_BYTES", 300)
    waiting = Spool()
    for since in range(0, 60, 6):
        waiting.add("tcp_io", made("tcp_io", [3, 1, 2, 1, 3, 2], since))
        waiting.add("tls_record", made("tls_record", [1], since))
    found = waiting.runs()
    assert len(found["tcp_io"]) > 1
    for run in found["tcp_io"]:
        keys = list(zip(run["cookie"].tolist(), run["time"].tolist(), strict=True))
        assert keys == sorted(keys)
    times = sorted(time for run in found["tcp_io"] for time in run["time"].tolist())
    assert times == list(range(60))
    assert sum(map(len, found["tls_record"])) == 10


def test_no_file_has_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever kills the process leaves nothing behind."""
    monkeypatch.setattr(spool, "SPOOL_BYTES", 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    waiting = Spool()
    waiting.add("tcp_io", made("tcp_io", [1], 5))
    assert not list(tmp_path.iterdir())
    (run,) = waiting.runs()["tcp_io"]
    assert run["time"].tolist() == [5]
