# SPDX-License-Identifier: Apache-2.0
"""The recording's file: the user's alone, kept as `last`, and never in place of something else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("traces on Linux only", allow_module_level=True)

from netdiag import state
from netdiag.errors import UsageError
from netdiag.tracing.files import RecordingFile
from netdiag.tracing.request import TraceRequest


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "netdiag"


def write(file: RecordingFile, content: bytes = b"NETDIAG\0more") -> None:
    os.write(file.fd, content)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_without_a_name_it_is_the_last(kept):
    before = os.umask(0)
    try:
        file = RecordingFile.create(TraceRequest())
    finally:
        os.umask(before)
    write(file)
    assert file.size == 12
    file.finish()
    assert [*kept.iterdir()] == [file.path]
    assert (mode(file.path), mode(kept)) == (0o600, 0o700)


def test_a_named_one_is_the_last_as_well(kept, tmp_path):
    file = RecordingFile.create(TraceRequest(save=tmp_path / "x.netdiag"))
    write(file)
    (second,) = kept.iterdir()
    assert second.read_bytes() == b"NETDIAG\0more"
    file.finish()
    assert mode(file.path) == 0o600


def test_on_another_file_system_the_last_is_a_copy(kept, tmp_path, monkeypatch):
    def link(source: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link", str(source), None, str(target))

    monkeypatch.setattr(os, "link", link)
    file = RecordingFile.create(TraceRequest(save=tmp_path / "x.netdiag"))
    write(file)
    assert [*kept.iterdir()] == []
    file.finish()
    (second,) = kept.iterdir()
    assert (second.read_bytes(), mode(second)) == (b"NETDIAG\0more", 0o600)


def test_not_to_be_kept_a_named_one_is_nowhere_else_and_another_is_temporary(kept, tmp_path):
    RecordingFile.create(TraceRequest(save=tmp_path / "x.netdiag", keep=False)).finish()
    file = RecordingFile.create(TraceRequest(keep=False))
    assert file.temporary
    assert mode(file.path) == 0o600
    file.finish()
    file.path.unlink()
    assert not kept.exists()


def test_an_older_recording_is_replaced_and_closed_to_others(tmp_path):
    path = tmp_path / "x.netdiag"
    path.write_bytes(b"NETDIAG\0" + b"old" * 100)
    path.chmod(0o644)
    file = RecordingFile.create(TraceRequest(save=path))
    assert (file.size, mode(path)) == (0, 0o600)
    file.finish()


def test_a_replaced_recording_stays_among_the_kept_ones(kept, tmp_path):
    for content in (b"NETDIAG\0first", b"NETDIAG\0second"):
        file = RecordingFile.create(TraceRequest(save=tmp_path / "x.netdiag"))
        write(file, content)
        file.finish()
    assert sorted(path.read_bytes() for path in kept.iterdir()) == [b"NETDIAG\0first", b"NETDIAG\0second"]
    assert (tmp_path / "x.netdiag").read_bytes() == b"NETDIAG\0second"


@pytest.mark.parametrize("content", [b"import os\n", b"NETDIAG", b"\x7fELF"])
def test_another_file_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "app.py"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="exists and is not a recording"):
        RecordingFile.create(TraceRequest(save=path))
    assert path.read_bytes() == content


def test_what_is_no_file_cannot_hold_a_recording(tmp_path):
    with pytest.raises(UsageError, match="not a regular file"):
        RecordingFile.create(TraceRequest(save=Path(os.devnull)))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="cannot be written"):
        RecordingFile.create(TraceRequest(save=tmp_path / "pipe"))
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        RecordingFile.create(TraceRequest(save=tmp_path))
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        RecordingFile.create(TraceRequest(save=tmp_path / "missing" / "x"))


@pytest.mark.parametrize("home", ["/proc/nobody", "/dev/null/home"])
def test_without_a_home_the_trace_goes_on_and_it_is_said_that_nothing_is_kept(monkeypatch, home):
    monkeypatch.setenv("XDG_STATE_HOME", home)
    file = RecordingFile.create(TraceRequest())
    assert file.temporary
    assert file.notice is not None
    assert home in file.notice
    assert "--save FILE" in file.notice
    write(file)
    file.finish()
    file.path.unlink()


def test_where_not_even_a_temporary_file_can_be_the_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/home")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="cannot be written") as raised:
        RecordingFile.create(TraceRequest())
    assert raised.value.hint == "--save FILE puts it elsewhere"


def test_without_a_state_folder_a_named_recording_is_made_all_the_same(tmp_path):
    (tmp_path / "state").write_text("a file is in the way")
    RecordingFile.create(TraceRequest(save=tmp_path / "x.netdiag")).finish()


def test_an_abandoned_one_is_gone_under_both_names(kept, tmp_path):
    file = RecordingFile.create(TraceRequest(save=tmp_path / "x.netdiag"))
    file.abandon()
    assert not (tmp_path / "x.netdiag").exists()
    assert [*kept.iterdir()] == []


def test_a_recording_too_large_for_the_folder_is_not_copied(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(state, "MAX_BYTES", 5)
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(18, "cross-device")))
    file = RecordingFile.create(TraceRequest(save=tmp_path / "x.netdiag"))
    write(file)
    file.finish()
    assert [*kept.iterdir()] == []
