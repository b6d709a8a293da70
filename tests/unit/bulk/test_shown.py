# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from typing import Any

import pytest

from netdiag import analysis, bulk, tables
from netdiag.bulk import cut, shown
from netdiag.document import build
from tests.unit.bulk import longs


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in this process: a new one for each part takes longer than these parts."""
    monkeypatch.setattr(sys.modules["netdiag.bulk.build"], "_each", lambda work, items, _: map(work, items))


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> bulk.Whole:
    monkeypatch.setattr(cut, "parts_of", lambda recording, real=cut.parts_of: real(recording, 60))
    return bulk.build(longs.recording(), analysis.Options(), lambda *_: None)


def _want() -> dict[str, Any]:
    return build(longs.recording(), tables.build(longs.recording()), ())


@pytest.mark.parametrize(("rows", "ends"), [(300, 1500), (5, 2)])
def test_figures_of_all_and_rows_of_some(monkeypatch, whole, rows, ends):
    monkeypatch.setattr(shown, "_ROWS", rows)
    monkeypatch.setattr(shown, "_ENDS", ends)
    want, got = _want(), shown.document(longs.recording(), whole, whole.findings)
    assert got["summary"]["requests"] == want["summary"]["requests"]
    assert got["summary"]["wait_ms"] == pytest.approx(want["summary"]["wait_ms"])
    for kind in ("requests", "connections"):
        known = {row["id"]: row for row in want[kind]}
        assert got[kind]
        for row in got[kind]:
            wanted = known[row["id"]]
            assert {key: value for key, value in row.items() if isinstance(value, str | int)} == {
                key: value for key, value in wanted.items() if isinstance(value, str | int)
            }
    if rows > len(want["requests"]):
        assert len(got["requests"]) == len(want["requests"])
    else:
        assert len(got["requests"]) < len(want["requests"])
    # what a request names is there
    assert {row["connection"] for row in got["requests"]} <= {row["id"] for row in got["connections"]}


def test_what_findings_rest_on_is_said(whole):
    lines = shown.document(longs.recording(), whole, ())["coverage"]["unobservable"]
    assert any("findings rest on 84 of 84 requests" in line["why"] for line in lines)
