# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import statistics

import pytest

from netdiag.errors import InputUnreadable
from netdiag.route import figures
from netdiag.route.hops import build
from netdiag.route.imports import mtr


def hub(count, host, best, average, worst, loss=0.0, sent=10):
    return {"count": count, "host": host, "Loss%": loss, "Snt": sent, "Best": best, "Avg": average, "Wrst": worst}


HUBS = [
    hub(1, "_gateway (192.168.0.1)", 0.4, 0.5, 0.9),
    {"count": 2, "host": "???", "Loss%": 100.0, "Snt": 10},
    hub(3, "198.18.0.1", 9.0, 10.0, 15.0, loss=70.0),
    hub("4", "203.0.113.10", 20.0, 21.0, 29.0),
]
REPORT = {"report": {"mtr": {"src": "x", "dst": "203.0.113.10", "tests": 10}, "hubs": HUBS}}


def test_a_report():
    (trace,) = mtr.read(REPORT).traces
    path = build(trace)
    assert [[one.ip for one in row.responders] for row in path.hops] == [
        ["192.168.0.1"], [], ["198.18.0.1"], ["203.0.113.10"]
    ]  # fmt: skip
    assert path.reached
    assert path.hops[2].limited
    times = figures.target_ms(trace)
    assert (min(times), max(times), len(times)) == (20.0, 29.0, 10)
    assert statistics.fmean(times) == pytest.approx(21.0)


def test_a_last_hop_that_is_another_is_not_the_target():
    report = {"report": {"mtr": {"dst": "203.0.113.10"}, "hubs": HUBS[:3]}}
    assert not build(mtr.read(report).traces[0]).reached


@pytest.mark.parametrize(
    ("report", "where"),
    [
        ({"mtr": 3, "hubs": HUBS}, "report.mtr"),
        ({"mtr": {"dst": "x"}, "hubs": []}, "no hop"),
        ({"mtr": {}, "hubs": HUBS}, "dst"),
        ({"mtr": {"dst": "x"}, "hubs": [hub(1, "router.example.com", 1, 1, 1)]}, "without its address"),
        ({"mtr": {"dst": "x"}, "hubs": HUBS[:2]}, "did not answer"),
        ({"mtr": {"dst": "x"}, "hubs": [hub(1, "198.18.0.1", "x", 1, 1)]}, "Best"),
        ({"mtr": {"dst": "x"}, "hubs": [3]}, "hubs"),
    ],
)
def test_what_is_wrong_is_named(report, where):
    with pytest.raises(InputUnreadable, match=where):
        mtr.read({"report": report})
