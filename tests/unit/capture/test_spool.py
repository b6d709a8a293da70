# SPDX-License-Identifier: Apache-2.0
"""Records of a capture that wait in a file come back whole, each stream's in order of connections and time."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from netdiag.capture import spool
from netdiag.capture.layouts import rows
from netdiag.capture.read import read
from netdiag.capture.spool import Spool, attached
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
    waiting.close()
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
    waiting.close()
    assert run["time"].tolist() == [5]


def test_another_process_takes_over_what_lies_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file is shared and the rest is sent; of a first reading that was for naught nothing is left."""
    capture_file = Path(__file__).resolve().parents[2] / "captures" / "own_httpx_expiry5_gap6.5.pcap"
    whole = read(capture_file)
    monkeypatch.setattr(spool, "SPOOL_BYTES", 500)
    with (tmp_path / "spool").open("w+b") as file:
        waiting = Spool(file)
        waiting.add("tcp_io", made("tcp_io", [1] * 100, 5))
        waiting.clear()
        part = waiting.detached(read(capture_file, spool=waiting))
        found = attached(file, pickle.loads(pickle.dumps(part)))
    assert {stream for stream, *_ in part.index} == {"tcp_io", "tls_record"}
    assert not part.recording.runs["tcp_io"]
    assert replace(found, runs={}) == replace(whole, runs={})
    assert found.runs.keys() == whole.runs.keys()
    for stream in ("tcp_io", "tls_record"):
        rows = [np.sort(np.concatenate(one.runs[stream]), order=("cookie", "time")) for one in (found, whole)]
        assert (rows[0] == rows[1]).all()
