# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.findings import Severity

NAN = math.nan


def look_up(stage, at, took, name="api.test", answers=("192.0.2.1",), *, error=None, parts=(), ttl=60.0, pid=1.0):
    """Add a call of the C library and its questions: (name, qtype, from, took, answers, error, attempts, cut)."""
    row = len(stage.resolutions)
    base = {"pid": pid, "tid": pid, "ttl_s": ttl, "attempts": 1.0, "truncated": False, "part_of": NAN}
    found = list(answers) if error is None else []
    stage.resolutions.append(
        base
        | {"name": name, "qtype": "A+AAAA", "source": "libc", "started_ns": at * 1e6, "duration_ms": took}
        | {"answers": found, "error": error}
    )
    for part in parts or ((name, "A", 0.0, took, found, error, 1, False),):
        asked, qtype, after, lasted, got, wrong, attempts, cut = part
        stage.resolutions.append(
            base
            | {"name": asked, "qtype": qtype, "source": "wire", "started_ns": (at + after) * 1e6, "part_of": float(row)}
            | {"duration_ms": lasted, "answers": list(got), "error": wrong, "attempts": attempts, "truncated": cut}
        )


def test_slow_look_ups(stage):
    for turn in range(3):
        look_up(stage, turn * 1000, 150, f"h{turn}.test")
        stage.connection(turn * 1000 + 151, remote_ip="192.0.2.1")
    finding = stage.only("dns.slow")
    assert (finding.count, finding.of, finding.cause) == (3, 3, "server")
    assert finding.cost_ms == pytest.approx(450)
    assert finding.severity is Severity.CRITICAL
    assert {line.kind for line in finding.evidence} == {"resolution"}


@pytest.mark.parametrize(
    ("parts", "cause"),
    [
        (
            [("h.test", "A", 0, 20, ["192.0.2.1"], None, 1, False), ("h.test", "AAAA", 0, 150, [], None, 1, False)],
            "aaaa",
        ),
        ([("h.test", "A", 0, 150, ["192.0.2.1"], None, 2, False)], "unanswered"),
        ([("h.test", "A", 0, 150, ["192.0.2.1"], None, 1, True)], "tcp"),
        (
            [
                ("h.test.x.test", "A", 0, 100, [], "NXDOMAIN", 1, False),
                ("h.test", "A", 100, 50, ["1.1.1.1"], None, 1, False),
            ],
            "search-list",
        ),
    ],
)
def test_why_look_ups_are_slow(stage, parts, cause):
    for turn in range(3):
        look_up(stage, turn * 1000, 150, "h.test", parts=parts, ttl=0.0)
    (finding,) = [finding for finding in stage.findings() if finding.code == "dns.slow"]
    assert finding.cause == cause


def test_one_slow_look_up_is_a_remark_and_one_that_timed_out_is_not(stage):
    look_up(stage, 0, 300)
    stage.connection(301, [0, 10, 10])
    assert stage.only("dns.slow").severity is Severity.INFO
    look_up(stage, 1000, 5000, "other.test")
    assert stage.loud() == ["dns.slow"]


def test_below_the_floor_nothing_is_slow(stage):
    for turn in range(9):
        look_up(stage, turn * 1000, 99, f"h{turn}.test")
    assert stage.codes() == []


def test_a_name_again_and_again(stage):
    for turn in range(5):
        look_up(stage, turn * 1000, 20)
    finding = stage.only("dns.repeated")
    assert (finding.count, finding.of, finding.cost_ms) == (4, 5, pytest.approx(80))
    assert finding.subject.pid is None or finding.subject.pid == 1


@pytest.mark.parametrize(("ttl", "count"), [(0.5, 5), (60.0, 3), (NAN, 5)], ids=["expired", "too few", "unknown"])
def test_names_that_are_not_repeated(stage, ttl, count):
    for turn in range(count):
        look_up(stage, turn * 1000, 20, ttl=ttl)
    assert stage.codes() == []


def test_repeated_look_ups_of_a_client_per_call_are_its_evidence(stage):
    stage.process(1)
    for turn in range(5):
        look_up(stage, turn * 1000, 20)
        stage.connection(turn * 1000 + 21, closed_by="local", idle=8)
    (finding,) = stage.findings()
    assert finding.code == "reuse.client-per-call"
    assert any(line.id == "dns.repeated" for line in finding.evidence)


def test_failures_that_break_everything(stage):
    for turn in range(3):
        look_up(stage, turn * 1000, 10, "no.test", error="NXDOMAIN")
    finding = stage.only("dns.failed")
    assert (finding.severity, finding.cause, finding.count) == (Severity.CRITICAL, "nxdomain", 3)


def test_one_failure_of_the_servers_is_a_warning(stage):
    stage.connection(0, [0, 10])
    look_up(stage, 0, 10, "no.test", error="SERVFAIL")
    assert stage.only("dns.failed").severity is Severity.WARNING


def test_one_name_that_does_not_exist_beside_others_that_do_is_a_remark(stage):
    stage.connection(0, [0, 10])
    look_up(stage, 0, 10, "metadata.test", error="NXDOMAIN")
    assert stage.only("dns.failed").severity is Severity.INFO


def suffixed(name):
    return [
        (f"{name}.corp.test", "A", 0, 20, [], "NXDOMAIN", 1, False),
        (f"{name}.svc.test", "A", 20, 20, [], "NXDOMAIN", 1, False),
        (name, "A", 40, 20, ["192.0.2.1"], None, 1, False),
    ]


def test_suffixes_first(stage):
    for turn in range(3):
        look_up(stage, turn * 1000, 60, f"h{turn}.test", parts=suffixed(f"h{turn}.test"))
    finding = stage.only("dns.search-list")
    assert (finding.count, finding.cost_ms) == (3, pytest.approx(120))
    assert "corp.test, svc.test" in finding.evidence[0].note


def test_two_look_ups_with_suffixes_are_no_habit(stage):
    for turn in range(2):
        look_up(stage, turn * 1000, 60, f"h{turn}.test", parts=suffixed(f"h{turn}.test"))
    assert stage.codes() == []


def test_a_short_name_that_is_found_with_its_suffix_is_healthy(stage):
    for turn in range(4):
        parts = [
            (f"h{turn}.corp.test", "A", 0, 20, ["192.0.2.1"], None, 1, False),
            (f"h{turn}.corp.test", "AAAA", 0, 20, [], None, 1, False),
        ]
        look_up(stage, turn * 1000, 20, f"h{turn}", parts=parts)
    assert stage.codes() == []
