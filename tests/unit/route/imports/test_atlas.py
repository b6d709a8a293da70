# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.errors import InputUnreadable
from netdiag.route.hops import build
from netdiag.route.imports import atlas

RESULT = {
    "type": "traceroute",
    "msm_id": 1,
    "prb_id": 2,
    "timestamp": 1_796_000_000,
    "proto": "ICMP",
    "paris_id": 5,
    "dst_name": "api.example.com",
    "dst_addr": "203.0.113.10",
    "result": [
        {"hop": 1, "result": [{"from": "192.168.0.1", "rtt": 1.5, "ttl": 64, "size": 28}, {"x": "*"}]},
        {"hop": 2, "result": [{"from": "198.18.0.1", "rtt": 9.0, "icmpext": {"version": 2, "rfc4884": 1, "obj": [
            {"class": 1, "type": 1, "mpls": [{"exp": 0, "label": 24001, "s": 1, "ttl": 1}]}]}}, {"late": 3}]},
        {"hop": 3, "result": [{"x": "*"}, {"x": "*"}]},
        {"hop": 4, "result": [{"from": "203.0.113.10", "rtt": 20.0}]},
        {"hop": 255, "result": [{"x": "*"}]},
    ],
}  # fmt: skip


def test_a_result():
    measurement = atlas.read([RESULT])
    path = build(measurement.traces[0])
    assert measurement.target.host == "api.example.com"
    assert measurement.clocks.realtime_ns == 1_796_000_000 * 10**9
    assert [[one.ip for one in hop.responders] for hop in path.hops] == [
        ["192.168.0.1"], ["198.18.0.1"], [], ["203.0.113.10"]
    ]  # fmt: skip
    assert path.reached
    assert path.hops[0].probes == 2
    assert path.hops[1].responders[0].labels[0].value == 24001


def test_refused_on_the_way_is_not_the_target():
    refused = {**RESULT, "result": [{"hop": 1, "result": [{"from": "198.18.0.1", "rtt": 3.0, "err": "H"}]}]}
    assert not build(atlas.read([refused]).traces[0]).reached


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"dst_addr": "nonsense"}, "dst_addr"),
        ({"dst_addr": None}, "could not resolve"),
        ({"result": 3}, "result"),
        ({"result": [3]}, "result"),
        ({"result": [{"hop": -1}]}, "hop"),
        ({"result": [{"hop": 1, "result": [{"from": "198.18.0.1", "rtt": "x"}]}]}, "rtt"),
        ({"result": [{"hop": 1, "result": [{"from": "x" * 999, "rtt": 1.0}]}]}, "from"),
        ({"type": "ping"}, "no traceroute"),
    ],
)
def test_what_is_wrong_is_named(changed, where):
    with pytest.raises(InputUnreadable, match=where):
        atlas.read([{**RESULT, **changed}])
