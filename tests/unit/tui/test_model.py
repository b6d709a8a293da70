# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import pytest

from netdiag.findings import Subject
from netdiag.tui.model import Snapshot, key
from tests.fakes import dashboards


def test_a_snapshot_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        dashboards.snapshot().lost = 3  # type: ignore[misc]


def test_before_an_examination_there_are_no_findings():
    assert Snapshot().findings == ()
    assert len(dashboards.snapshot().findings) == 1


def test_a_finding_is_the_same_though_its_figures_grow():
    assert key(dashboards.finding()) == key(dashboards.finding(title="more", cost_ms=9.0, count=7))
    assert key(dashboards.finding()) != key(dashboards.finding(subject=Subject(pid=1)))
