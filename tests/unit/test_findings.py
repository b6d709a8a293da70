# SPDX-License-Identifier: Apache-2.0
"""netdiag.findings: a finding cannot be changed once it is made, and becomes plain JSON without loss."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace

import pytest

from netdiag.findings import Advice, Evidence, Finding, Learned, Severity, Subject

FINDING = Finding(
    code="reuse.server-idle-timeout",
    cause=None,
    severity=Severity.WARNING,
    confidence=0.9,
    title="The server closes idle connections after 5 s",
    subject=Subject(pid=4711, exe="/usr/bin/python3.11", remote="192.0.2.1:443", host=None),
    count=7,
    of=11,
    cost_ms=None,
    share_of_total=None,
    what_if=None,
    evidence=(Evidence(kind="connection", id="c3", note="closed by the server after 5.0 s of silence"),),
    learned=Learned(name="idle_timeout", value=5.0, low=4.98, high=5.01, unit="s"),
    advice=(Advice(text="expire idle connections earlier", setting="keepalive_expiry", value="4"),),
)


def test_json_has_every_member_and_keeps_what_is_unknown():
    plain = json.loads(json.dumps(FINDING.to_json()))
    assert plain["severity"] == "warning"
    assert plain["cost_ms"] is plain["cause"] is plain["subject"]["host"] is None
    assert plain["evidence"] == [{"kind": "connection", "id": "c3", "note": FINDING.evidence[0].note}]
    assert plain["learned"] == {"name": "idle_timeout", "value": 5.0, "low": 4.98, "high": 5.01, "unit": "s"}
    assert plain["advice"][0]["applies_to"] is None


def test_json_without_a_learned_number_has_null():
    assert replace(FINDING, learned=None).to_json()["learned"] is None


def test_a_finding_is_fixed():
    with pytest.raises(FrozenInstanceError):
        FINDING.severity = Severity.INFO  # type: ignore[misc]


def test_severities_come_in_the_order_of_reports():
    assert [severity.value for severity in Severity] == ["critical", "warning", "info"]
