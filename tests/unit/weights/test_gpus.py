# SPDX-License-Identifier: Apache-2.0
"""Lines of the child that looks at GPUs: curves, phases, findings with their near misses."""

from __future__ import annotations

from typing import Any

import pytest

from netdiag.weights.gpus import Child, Gpu, claims, gpus_of, phases_of, to_json

MIB, GIB = 1 << 20, 1 << 30
TOTAL = 80 * GIB


def at(ms):
    return round(ms * 1e6)


def curve(*used):
    return Gpu(index=0, total=TOTAL, samples=[(100.0 * n, one, TOTAL - one) for n, one in enumerate(used)])


def names(gpu):
    return [one["name"] for one in phases_of(gpu)]


def codes(gpu):
    return [one.code for one in claims([gpu])]


RISE = (GIB, GIB, 2 * GIB, 4 * GIB, 6 * GIB, 8 * GIB)


def test_lines_become_gpus_and_what_could_not_be_looked_at():
    rows: list[dict[str, Any]] = [
        {"driver": "580"},
        {"gpu": 1, "name": "B", "mig": False, "link_most": [5, 16]},
        {"gpu": 0, "name": "A", "mig": True, "link_most": [None, 16]},
        {"gpu": 1, "at_ns": at(5), "used": 1, "free": 2, "total": 3, "tx": 10, "rx": 20, "replays": 0, "reasons": None},
        {"gpu": 1, "at_ns": at(6), "link": [4, 16], "reasons": 4, "processes": [[7, None], [8, 9]]},
        {"gpu": -1, "trouble": "no driver"},
    ]
    (first, second), missing = gpus_of(rows, 0)
    assert (first.name, first.mig, first.link_most, first.driver) == ("A", True, None, "580")
    assert (second.samples, second.counters, second.links) == ([(5.0, 1, 2)], [(5.0, 10, 20)], [(4, 16)])
    assert (second.link_most, second.reasons, second.processes) == ((5, 16), 4, {7: None, 8: 9})
    assert missing == [("GPU", "no driver")]
    assert gpus_of([], 0) == ([], [])


def test_an_event_is_of_the_gpu_that_it_names_or_of_none():
    two: list[dict[str, Any]] = [{"gpu": 0, "name": "A"}, {"gpu": 1, "name": "B"}]
    xid = {"event": "Xid", "data": 79, "at_ns": at(5)}
    (first, second), missing = gpus_of([*two, {"gpu": 1, **xid}], 0)
    assert (first.events, second.events, missing) == ([], [(5.0, "Xid", 79)], [])
    (first, second), ((_, why),) = gpus_of([*two, xid], 0)
    assert (first.events, second.events) == ([], [])
    assert "Xid 79" in why
    (only,), missing = gpus_of([two[0], xid], 0)
    assert (only.events, missing) == ([(5.0, "Xid", 79)], [])


def test_replays_that_nobody_counted_are_unknown():
    gpu = Gpu(index=0, links=[(5, 8)], link_most=(5, 16), counters=[(0.0, 0, 0), (100.0, 0, GIB)])
    (found,) = claims([gpu])
    assert "– replays" in found.evidence[0].note


def test_a_driver_that_hung_is_the_trouble_of_all_gpus():
    rows = [{"gpu": 0, "name": "A"}, {"hung": "nvmlX", "since_ns": at(1_000), "at_ns": at(3_500)}]
    (gpu,), missing = gpus_of(rows, 0)
    assert gpu.trouble == missing[0][1]
    assert "nvmlX" in gpu.trouble
    assert "2.50 s" in gpu.trouble


def test_a_lost_gpu_is_told_before_other_troubles():
    rows = [
        {"gpu": 0, "trouble": "No Permission", "code": 4, "call": "a"},
        {"gpu": 0, "trouble": "GPU is lost", "code": 15, "call": "b"},
        {"gpu": 0, "trouble": "No Permission", "code": 4, "call": "c"},
    ]
    (gpu,), _ = gpus_of(rows, 0)
    assert gpu.trouble == "b: GPU is lost"
    assert codes(gpu) == ["gpu.throttled-or-xid"]


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ((GIB, GIB, GIB, GIB), []),
        ((GIB, 2 * GIB, 3 * GIB), []),
        ((*RISE, 8 * GIB), ["context", "weights", "ready"]),
        ((*RISE, 8 * GIB, 70 * GIB, 70 * GIB), ["context", "weights", "other", "KV cache", "ready"]),
        ((GIB, 70 * GIB, 70 * GIB, 70 * GIB), ["weights", "ready"]),
    ],
)
def test_phases_of_a_start(used, expected):
    assert names(curve(*used)) == expected


def test_phases_follow_each_other():
    phases = phases_of(curve(*RISE, 8 * GIB, 70 * GIB, 70 * GIB))
    assert [one["began_ms"] for one in phases[1:]] == [one["ended_ms"] for one in phases[:-1]]
    assert phases_of(Gpu(index=0, samples=curve(*RISE).samples)) == []  # the size of its memory is not known


@pytest.mark.parametrize(("most", "told"), [(79 * GIB, True), (77 * GIB, False)])
def test_room_that_the_kv_cache_leaves(most, told):
    gpu = curve(*RISE, 8 * GIB, most, most)
    assert codes(gpu) == (["gpu.memory-headroom"] if told else [])
    assert codes(curve(*RISE, 8 * GIB)) == []


@pytest.mark.parametrize(
    ("links", "moved", "replays", "told"),
    [
        ([(5, 8)], GIB, 0, True),
        ([(3, 16)], GIB, 0, True),
        ([(1, 16), (5, 16)], GIB, 0, False),
        ([(1, 16)], 0, 0, False),
        ([], GIB, 0, False),
        ([(5, 16)], 0, 100, True),
        ([(5, 16)], 0, 99, False),
    ],
)
def test_a_link_below_its_best(links, moved, replays, told):
    gpu = Gpu(index=0, links=links, link_most=(5, 16), replays=[0, replays])
    gpu.counters = [(0.0, 0, 0), (100.0, 0, moved)]
    assert codes(gpu) == (["gpu.pcie-degraded"] if told else [])


@pytest.mark.parametrize(
    ("reasons", "events", "severity"),
    [(0x1, [], None), (0x4, [], "warning"), (0x40, [], "warning"), (0, [(5.0, "Xid", 79)], "critical")],
)
def test_throttling_and_errors(reasons, events, severity):
    found = list(claims([Gpu(index=3, reasons=reasons, events=events)]))
    assert [str(one.severity) for one in found] == ([severity] if severity else [])


def test_a_gpu_in_the_document():
    gpu = curve(*RISE)
    gpu.counters, gpu.processes = [(0.0, 5, 10), (1.0, 5, 50)], {9: None, 2: 3}
    found = to_json(gpu)
    assert (found["received_bytes"], found["link"]) == (40, {"now": None, "most": None})
    assert found["processes"] == [{"pid": 2, "used_bytes": 3}, {"pid": 9, "used_bytes": None}]
    assert to_json(Gpu(index=0))["received_bytes"] is None


def test_the_child_ends_and_its_lines_are_read():
    rows = Child().stop()
    assert all(isinstance(row, dict) for row in rows)
