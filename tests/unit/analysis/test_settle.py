# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from netdiag.analysis.settle import _BY_COUNT, EXPLAINED_BY, QUIETED, settle
from netdiag.catalog import catalog
from netdiag.findings import Evidence, Finding, Severity, Subject


def finding(code, pid=1, connection="c1", severity=Severity.WARNING):
    return Finding(
        code=code, cause=None, severity=severity, confidence=0.9, title=code, count=1, of=1, cost_ms=None,
        share_of_total=None, what_if=None, subject=Subject(pid=pid, remote="192.0.2.1:443"),
        evidence=(Evidence(kind="connection", id=connection, note=""),),
    )  # fmt: skip


@pytest.mark.parametrize("symptom", sorted(EXPLAINED_BY))
def test_a_symptom_becomes_evidence(symptom):
    cause = min(EXPLAINED_BY[symptom])
    (left,) = settle([finding(symptom), finding(cause)])
    assert left.code == cause
    assert left.evidence[-1].id == symptom


@pytest.mark.parametrize(("symptom", "cause"), sorted(_BY_COUNT))
def test_few_of_many_explain_nothing(symptom, cause):
    many = replace(finding(symptom), count=5)
    assert len(settle([many, replace(finding(cause), count=2)])) == 2
    assert len(settle([many, replace(finding(cause), count=3)])) == 1


def test_another_programs_finding_explains_nothing():
    left = settle([finding("tcp.far-server"), finding("reuse.client-per-call", pid=2, connection="c9")])
    assert len(left) == 2


@pytest.mark.parametrize("code", sorted(QUIETED))
def test_dear_handshakes_are_a_remark_beside_what_makes_them(code):
    left = settle([finding(code), finding("reuse.client-per-call")])
    assert {one.code: one.severity for one in left} == {
        code: Severity.INFO,
        "reuse.client-per-call": Severity.WARNING,
    }
    assert settle([finding(code)])[0].severity is Severity.WARNING


def test_all_codes_are_described():
    named = set(EXPLAINED_BY) | {code for causes in EXPLAINED_BY.values() for code in causes} | QUIETED
    assert sorted(named - set(catalog())) == []
