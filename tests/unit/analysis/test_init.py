# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

import netdiag.analysis
from netdiag.analysis import ANALYSES, Options, examine, run
from netdiag.catalog import catalog
from netdiag.findings import Severity
from netdiag.tables.model import Loss, Tables


def per_call(stage, times=5, **options):
    at = 0.0
    for _ in range(times):
        at = stage.end_of(stage.connection(at, closed_by="local", **options)) + 50


def test_nothing_recorded_nothing_said():
    report = examine(Tables())
    assert (report.findings, report.failures) == ((), ())


def test_loudest_first_and_unknown_cost_last(stage):
    per_call(stage)
    for call in range(3):
        stage.failed(call, "refused", remote_port=9.0)
    stage.failed(9, "unreachable", error="EMFILE", remote_port=10.0)
    ranks = [(list(Severity).index(one.severity), one.cost_ms is None, -(one.cost_ms or 0)) for one in stage.findings()]
    assert len(ranks) == 3
    assert ranks == sorted(ranks)


def test_the_same_tables_give_the_same_findings(stage):
    per_call(stage)
    assert run(stage.tables()) == run(stage.tables(), Options())


@pytest.mark.parametrize("lost", [1, 10_000])
def test_losses_lower_confidence(stage, lost):
    per_call(stage)
    before = stage.only("reuse.client-per-call").confidence
    stage.losses = (Loss(probe="tcp", seen=5, lost=lost),)
    assert stage.only("reuse.client-per-call").confidence < before


def test_an_analysis_that_stumbles_does_not_silence_the_others(stage, monkeypatch):
    def stumbles(_case):
        raise ZeroDivisionError("of course")

    per_call(stage)
    monkeypatch.setattr(netdiag.analysis, "ANALYSES", (stumbles, *ANALYSES))
    report = examine(stage.tables())
    assert [finding.code for finding in report.findings] == ["reuse.client-per-call"]
    assert [failure.reason for failure in report.failures] == ["ZeroDivisionError: of course"]


def test_every_code_in_the_analyses_is_described_and_the_other_way_round():
    folder = Path(netdiag.analysis.__file__).parent
    code = re.compile(r'"((?:reuse|tcp|tls|dns|http|http2|stream|retry|client)\.[a-z0-9-]+)"')
    emitted = {name for path in folder.glob("*.py") if path.stem != "settle" for name in code.findall(path.read_text())}
    families = {name.partition(".")[0] for name in emitted}
    assert families >= {"reuse", "tcp", "tls"}
    assert emitted == {name for name in catalog() if name.partition(".")[0] in families}


def test_many_connections_are_no_burden(stage):
    for at in range(3000):
        stage.connection(at * 100, closed_by="local", tls=False)
    assert stage.only("reuse.client-per-call").count == 3000
