# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag import lab
from tests.fakes.commands import call


def test_it_returns_what_the_trace_returned(capsys, monkeypatch):
    monkeypatch.setattr(lab, "demo", lambda *, seed: 40 + seed)
    assert call(capsys, "demo", "--seed", 2).status == 42
