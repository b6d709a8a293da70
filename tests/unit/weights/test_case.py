# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.findings import Severity
from netdiag.units import UNKNOWN
from netdiag.weights.case import after, finding, is_weights, make, size
from tests.fakes import loads
from tests.fakes.loads import KIB, MIB


@pytest.mark.parametrize(
    ("value", "text"),
    [(128 * KIB, "128 KiB"), (4 * MIB, "4 MiB"), (1536 * KIB, "1.5 MiB"), (512, "0.5 KiB"), (None, UNKNOWN)],
)
def test_sizes_of_requests(value, text):
    assert size(value) == text


@pytest.mark.parametrize(
    ("file", "may"),
    [
        ({"size": 16 * MIB, "format": None, "path": "/m.bin"}, True),
        ({"size": 16 * MIB - 1, "format": "gguf"}, False),
        ({"format": None, "path": "/lib/libtorch_cuda.so.2"}, False),
        ({"format": None, "path": "/models.so/m.bin"}, True),
        ({"format": "safetensors", "path": "/odd.so"}, True),
    ],
)
def test_what_may_be_weights(file, may):
    assert is_weights(loads.file(**file)) is may


def test_a_case_knows_its_files_and_its_waits():
    case = loads.case(
        loads.thread(blocked={"fault": 1_000.0, "read": 500.0, "other": 9.0}),
        [loads.file(), loads.file(size=1), loads.file(pid=5)],
    )
    assert (len(case.files), case.waited_ms, case.share(1_000.0)) == (2, 1_500.0, 0.1)
    assert [case.mine(one) for one in case.files] == [True, False]
    nothing = loads.case(loads.thread(ended_ms=0.0, run_ms=0.0))
    assert nothing.share(5.0) == 0.0


def test_larger_requests_shorten_the_wait_to_a_bound():
    case = loads.case(loads.thread(blocked={"read": 8_000.0}))
    small = loads.requests(100, 128 * KIB)
    assert str(after(case, small, 1 * MIB, 2)).startswith("10.0 s → not below 2.50 s")
    large = loads.requests(100, 4 * MIB, depth=4.0)
    assert after(case, large, 1 * MIB, 2) is None


@pytest.mark.parametrize(
    ("cost", "severity"), [(2_000.0, Severity.CRITICAL), (500.0, Severity.WARNING), (499.0, Severity.INFO)]
)
def test_the_share_of_the_time_is_the_grade(cost, severity):
    found = finding(loads.case(), "observer.cost", cost_ms=cost, confidence=0.9)
    assert (found.severity, found.share_of_total) == (severity, cost / 10_000.0)


def test_a_finding_names_its_file_and_what_shows_it():
    file = loads.file(pid=5, mount=loads.mount(), requests=(loads.requests(10, 4 * KIB),))
    found = finding(
        loads.case(files=[file]), "weights.evicted", file, cost_ms=None, confidence=0.8, values={"left": "1 %"}
    )
    assert "m.safetensors" in found.title
    assert (found.subject.pid, found.cost_ms, found.share_of_total) == (5, None, None)
    shown = {one.kind: one for one in found.evidence}["file"]
    assert shown.id == file.path
    assert "on ext4" in shown.note
    assert "10 requests (device) of 4 KiB" in shown.note


def test_a_share_is_never_above_all():
    found = make("observer.cost", severity=Severity.INFO, confidence=0.5, values={}, wall_ms=10.0, cost_ms=30.0)
    assert found.share_of_total == 1.0
