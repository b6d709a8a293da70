# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.findings import Severity


def pair(stage, at, *, follow=1.0, size=300.0):
    """Play a call to one host, answered in 10 ms, and one to another host `follow` ms after the answer."""
    first = stage.connection(at, wait=10, tls=False, remote_ip="192.0.2.1", turn={"received_bytes": size})
    end = stage.turns[-1]["last_byte_ns"] / 1e6
    stage.connection(end + follow, wait=10, tls=False, remote_ip="192.0.2.2")
    return first


def test_pairs_of_hosts(stage):
    for turn in range(4):
        pair(stage, turn * 1000)
    (finding,) = [finding for finding in stage.findings() if finding.code == "reuse.redirect-each-call"]
    assert (finding.count, finding.cause, finding.confidence) == (4, "unknown", 0.6)
    assert finding.severity is Severity.WARNING
    assert "seem to be sent elsewhere" in finding.title
    assert finding.subject.remote == "192.0.2.1:443"


def test_two_hosts_in_turn_are_no_warning(stage):
    for turn in range(6):
        pair(stage, turn * 25.0)  # each call begins right after the one before it
    (finding,) = [finding for finding in stage.findings() if finding.code == "reuse.redirect-each-call"]
    assert (finding.severity, finding.confidence) == (Severity.INFO, 0.4)


@pytest.mark.parametrize(
    ("count", "options"),
    [(2, {}), (4, {"follow": 200.0}), (4, {"size": 9000.0})],
    ids=["too few", "no haste", "large answers"],
)
def test_pairs_that_are_no_redirects(stage, count, options):
    for turn in range(count):
        pair(stage, turn * 1000, **options)
    assert "reuse.redirect-each-call" not in stage.codes()


def test_one_call_without_a_follower_shows_a_program_of_two_hosts(stage):
    for turn in range(4):
        pair(stage, turn * 1000)
    stage.connection(9000, wait=10, tls=False, remote_ip="192.0.2.1")
    assert "reuse.redirect-each-call" not in stage.codes()


def statuses(stage, *codes):
    row = stage.connection(0, [10.0] * len(codes), tls=False)
    turns = [turn for turn in stage.turns if turn["connection"] == row]
    for number, (turn, code) in enumerate(zip(turns, codes, strict=True)):
        stage.requests.append(
            {
                "id": f"r{number + 1}", "connection": row, "pid": 1.0, "source": "plaintext", "method": "POST",
                "path": "/v1/old" if 300 <= code < 400 else "/v1/new", "host": "api.test", "status": float(code),
                "began_ns": turn["began_ns"], "sent_ns": turn["sent_ns"], "first_byte_ns": turn["first_byte_ns"],
                "ended_ns": turn["last_byte_ns"], "started_ns": turn["began_ns"], "total_ms": 20.0, "wait_ms": 20.0,
                "request_bytes": 400.0, "response_bytes": 300.0, "sequence": number + 1, "reused": number > 0,
            }
        )  # fmt: skip


def test_answers_that_say_so(stage):
    statuses(stage, 301, 200, 301, 200, 308, 200)
    (finding,) = [finding for finding in stage.findings() if finding.code == "reuse.redirect-each-call"]
    assert (finding.count, finding.of, finding.cause) == (3, 3, "permanent")
    assert finding.cost_ms == pytest.approx(60)
    assert "/v1/old" in finding.title


@pytest.mark.parametrize("codes", [(307, 200, 307, 200), (304, 304, 304, 304)], ids=["twice", "not modified"])
def test_answers_that_are_no_habit(stage, codes):
    statuses(stage, *codes)
    assert "reuse.redirect-each-call" not in stage.codes()
