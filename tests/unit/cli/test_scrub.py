# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from tests.fakes.commands import call, recording_file


def test_a_copy_with_the_same_findings(capsys, tmp_path):
    original, copy = recording_file(tmp_path), tmp_path / "copy.netdiag"
    assert call(capsys, "scrub", original, "-o", copy).status == 0
    assert copy.stat().st_mode & 0o777 == 0o600
    documents = [json.loads(call(capsys, "analyze", path, "--format", "json").out) for path in (original, copy)]
    codes = [[finding["code"] for finding in document["findings"]] for document in documents]
    assert codes[0] == codes[1] != []


def test_an_existing_file_stays(capsys, tmp_path):
    original = recording_file(tmp_path)
    called = call(capsys, "scrub", original, "-o", original)
    assert called.status == 2
    assert "File exists" in called.err


def test_a_full_disk_leaves_nothing(capsys, tmp_path, monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("netdiag.scrub.scrub", full)
    called = call(capsys, "scrub", recording_file(tmp_path), "-o", tmp_path / "copy")
    assert called.status == 2
    assert not (tmp_path / "copy").exists()
