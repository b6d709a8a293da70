# SPDX-License-Identifier: Apache-2.0
"""Recordings as they are found: finished, growing, cut, damaged, none."""

from __future__ import annotations

import threading
import time

import pytest

from netdiag.testing import RecordingBuilder
from netdiag.tui import worker
from netdiag.tui.model import Snapshot, State
from netdiag.tui.worker import Follower


def content(**options) -> bytes:
    builder = RecordingBuilder().process(100)
    for at in range(6):
        builder.connection(
            [("send", 50 * at + 1, 100), ("receive", 50 * at + 9, 900)], opened=50 * at, closed=("local", 50 * at + 10)
        )
    return builder.to_bytes(end_at=400, **options)


def follow(path, **options):
    shown: list[Snapshot] = []
    Follower(path, shown.append, **options).run()
    return shown


def test_a_finished_recording_is_shown_with_its_findings(tmp_path):
    path = tmp_path / "r"
    path.write_bytes(content())
    (shown,) = follow(path)
    assert shown.state is State.FINISHED
    assert shown.total.requests == 6
    assert [row.program for row in shown.rows] == ["python3"]
    assert "reuse.client-per-call" in [one.code for one in shown.findings]


@pytest.mark.parametrize("cut", [10, 200, 2000, 5000])
def test_one_that_breaks_off_is_shown_up_to_there(tmp_path, cut):
    path = tmp_path / "r"
    path.write_bytes(content()[:-cut])
    shown = follow(path)[-1]
    assert shown.state is State.TRUNCATED
    assert shown.why


@pytest.mark.parametrize("bytes_", [b"", b"NETD", b"hello, I am no recording at all", b"NETDIAG\0" + bytes(40)])
def test_what_is_no_recording_is_said(tmp_path, bytes_):
    path = tmp_path / "r"
    path.write_bytes(bytes_)
    assert follow(path)[-1].why


def test_every_damaged_byte_is_survived(tmp_path):
    path, whole = tmp_path / "r", content()
    for at in range(16, len(whole), max(1, len(whole) // 25)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        assert follow(path)


def test_one_that_grows_is_followed_to_its_end(tmp_path):
    path, whole = tmp_path / "r", content()
    half = len(content(end=None)) - 100
    path.write_bytes(whole[:half])
    shown: list[Snapshot] = []
    follower = Follower(path, shown.append, grows=True)
    thread = threading.Thread(target=follower.run)
    thread.start()
    deadline = time.monotonic() + 20
    while not shown and time.monotonic() < deadline:
        time.sleep(0.02)
    assert shown[0].state is State.LIVE
    with path.open("ab") as file:
        file.write(whole[half:])
    thread.join(20)
    assert not thread.is_alive()
    assert shown[-1].state is State.FINISHED
    assert shown[-1].total is not None
    assert shown[-1].total.requests == 6


def test_a_writer_that_dies_is_said(tmp_path):
    path = tmp_path / "r"
    path.write_bytes(content(end=None))
    shown = follow(path, grows=True, alive=lambda: False)
    assert shown[-1].state is State.TRUNCATED


def test_one_that_stops_growing_is_called_quiet(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "_QUIET_S", 0.1)
    path = tmp_path / "r"
    shown: list[Snapshot] = []
    path.write_bytes(content(end=None))
    follower = Follower(path, shown.append, grows=True)
    thread = threading.Thread(target=follower.run)
    thread.start()
    deadline = time.monotonic() + 20
    while not any(one.state is State.QUIET for one in shown) and time.monotonic() < deadline:
        time.sleep(0.02)
    follower.stop()
    thread.join(20)
    assert any(one.state is State.QUIET for one in shown)


def test_too_large_a_recording_has_figures_of_all_and_findings_of_the_newest(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "_FINISHED_RECORDS", 14)
    monkeypatch.setattr(worker, "_LIVE_RECORDS", 10)
    path = tmp_path / "r"
    path.write_bytes(content())
    first, last = follow(path)
    assert first.examination is None
    assert first.total.connections == 6
    assert last.total.connections == 6
    assert (last.examination.covered, last.examination.total) == (2, 6)


def test_an_examination_that_stumbles_leaves_the_figures(tmp_path, monkeypatch):
    def stumble(*_, **__):
        raise TypeError

    monkeypatch.setattr(worker, "examine", stumble)
    path = tmp_path / "r"
    path.write_bytes(content())
    assert follow(path)[-1].total.connections == 6
