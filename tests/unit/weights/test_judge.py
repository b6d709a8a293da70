# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

from netdiag.findings import Severity
from netdiag.weights.judge import judge, order
from tests.fakes import loads
from tests.fakes.loads import GIB, KIB

BACKWARD = {"backward": 200, "forward": 10, "near": 200}
THREAD: dict[str, Any] = {"blocked": {"fault": 8_000.0}, "waits_fault": 500, "major_faults": 2}


def codes(found):
    return [one.code for one in found]


def test_a_quiet_load_has_no_finding():
    assert judge(loads.case()) == []


def test_the_cause_is_told_and_not_its_sign_as_well():
    with_cause = loads.file(requests=(loads.requests(8_192, 64 * KIB),), **BACKWARD)
    without = loads.file(requests=(loads.requests(512, 1024 * KIB),), mount=loads.mount(readahead_bytes=8 << 20))
    assert codes(judge(loads.case(loads.thread(**THREAD), [with_cause]))) == ["weights.backward-walk"]
    assert codes(judge(loads.case(loads.thread(**THREAD), [without]))) == ["weights.hidden-io-wait"]


def test_the_most_severe_and_dearest_comes_first():
    thread = loads.thread(**THREAD, reads=100_000, read_bytes=100_000 * 8 * KIB, samples={"read": 100})
    file = loads.file(requests=(loads.requests(8_192, 64 * KIB),), get_bytes=GIB, **BACKWARD)
    found = judge(loads.case(thread, [file], kernel_ms=300.0))
    assert codes(found) == ["weights.backward-walk", "weights.small-reads", "observer.cost"]
    assert order(reversed(found)) == found


def test_order_is_by_severity_then_cost_then_code():
    (one,) = judge(loads.case(kernel_ms=300.0))
    cheap, dear = replace(one, cost_ms=1.0), replace(one, cost_ms=2.0)
    unknown, grave = replace(one, cost_ms=None), replace(one, cost_ms=0.0, severity=Severity.CRITICAL)
    later = replace(dear, code="z")
    assert order([unknown, cheap, later, dear, grave]) == [grave, dear, later, cheap, unknown]
