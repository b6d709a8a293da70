# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.testing import RecordingBuilder
from netdiag.tui.examine import examine


def test_it_says_what_analyze_says():
    builder = RecordingBuilder()
    for at in range(5):
        calls = [("send", 50 * at + 1, 100), ("receive", 50 * at + 9, 900)]
        builder.connection(calls, opened=50 * at, closed=("local", 50 * at + 10))
    found = examine(builder.recording(), total=9)
    assert [one.code for one in found.findings] == ["reuse.client-per-call"]
    assert (found.covered, found.total) == (5, 9)
    assert len(found.calls) == 5
    assert found.failures == ()
    assert found.seconds > 0
