# SPDX-License-Identifier: Apache-2.0
"""What a trace leaves can be thrown away, but only what is temporary."""

from __future__ import annotations

from pathlib import Path

import pytest

from netdiag.tracing.request import ExitReason, TraceRequest, TraceResult


def result(recording: Path | None, *, temporary: bool) -> TraceResult:
    return TraceResult(
        recording=recording,
        exit_reason=ExitReason.DURATION,
        command_status=None,
        duration_s=1.0,
        coverage=None,
        temporary=temporary,
    )


@pytest.mark.parametrize("temporary", [True, False])
def test_only_a_temporary_recording_is_discarded(tmp_path, temporary):
    file = tmp_path / "x.netdiag"
    file.touch()
    result(file, temporary=temporary).discard()
    assert file.exists() != temporary
    result(file, temporary=True).discard()
    result(None, temporary=True).discard()


def test_nothing_asked_for_is_the_whole_machine_until_ctrl_c():
    request = TraceRequest()
    assert request.target.is_everything
    assert (request.command, request.duration_s, request.keep, request.as_root) == ((), None, True, False)
