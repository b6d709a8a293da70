# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from netdiag.testing import RecordingBuilder
from netdiag.tui.loads import Loads
from tests.fakes import loads as fakes


def test_a_load_is_told_as_weights_tells_it():
    kept = Loads()
    kept.add(fakes.builder().recording())
    kept.make(over=True)
    assert kept.document is not None
    assert kept.document["schema"] == "netdiag.weights/1"
    assert [file["path"] for file in kept.document["files"]] == ["/models/m.gguf"]
    assert "GPU" in [row["what"] for row in kept.document["tier"]["missing"]]


def test_it_grows_with_the_recording():
    whole = fakes.builder().recording()
    first = replace(whole, runs={name: runs[:1] for name, runs in whole.runs.items()}, end=None)
    rest = replace(whole, runs={name: runs[1:] for name, runs in whole.runs.items() if runs[1:]})
    kept = Loads()
    kept.add(first)
    kept.make(over=False)
    half = kept.document
    kept.add(rest)
    kept.make(over=True)
    assert half is not None
    assert kept.document is not None
    assert half["load"]["read_bytes"] < kept.document["load"]["read_bytes"]


def test_other_recordings_have_none():
    kept = Loads()
    kept.add(RecordingBuilder().connection([("send", 1, 10)]).recording())
    kept.make(over=True)
    assert kept.document is None
