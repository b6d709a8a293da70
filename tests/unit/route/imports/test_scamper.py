# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.errors import InputUnreadable
from netdiag.route.hops import build
from netdiag.route.imports import scamper


def hop(ttl, addr, rtt, icmp_type=11, code=0, **more):
    return {
        "addr": addr,
        "probe_ttl": ttl,
        "probe_id": 1,
        "rtt": rtt,
        "icmp_type": icmp_type,
        "icmp_code": code,
        **more,
    }


TRACE = {
    "type": "trace",
    "method": "icmp-echo-paris",
    "src": "198.18.255.2",
    "dst": "203.0.113.10",
    "stop_reason": "COMPLETED",
    "start": {"sec": 1_796_000_000, "usec": 0},
    "hop_count": 4,
    "hops": [
        hop(1, "192.168.0.1", 0.5, reply_ttl=64),
        hop(2, "198.18.0.1", 9.0, name="ae1.berlin1.isp.test", icmpext=[{"ie_cn": 1, "mpls_labels": [
            {"mpls_ttl": 1, "mpls_s": 1, "mpls_exp": 0, "mpls_label": 24001}]}]),
        hop(4, "203.0.113.10", 20.0, 0),
    ],
}  # fmt: skip


def test_a_trace():
    measurement = scamper.read([{"type": "cycle-start"}, TRACE, {"type": "cycle-stop"}])
    (trace,) = measurement.traces
    path = build(trace)
    assert [[one.ip for one in row.responders] for row in path.hops] == [
        ["192.168.0.1"], ["198.18.0.1"], [], ["203.0.113.10"]
    ]  # fmt: skip
    assert path.reached
    assert trace.single_flow
    assert path.hops[1].responders[0].labels[0].value == 24001
    assert measurement.lookups[0].answers == ("ae1.berlin1.isp.test",)


def test_a_tcp_answer_and_an_unreachable():
    tcp = {**TRACE, "method": "tcp", "dport": 443, "hops": [{**hop(1, "203.0.113.10", 5.0), "tcp_flags": 18}]}
    assert build(scamper.read([tcp]).traces[0]).reached
    gap = {**TRACE, "stop_reason": "UNREACH", "hops": [hop(1, "198.18.0.1", 5.0, 3, 1)], "hop_count": 1}
    assert not build(scamper.read([gap]).traces[0]).reached


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"dst": None}, "dst"),
        ({"hops": [3]}, "hops"),
        ({"hops": [hop(999, "198.18.0.1", 1.0)]}, "probe_ttl"),
        ({"hops": [hop(1, "198.18.0.1", -1)]}, "rtt"),
        ({"hops": [hop(1, "x", 1.0)]}, "addr"),
        ({"type": "tracelb"}, "no line of type trace"),
    ],
)
def test_what_is_wrong_is_named(changed, where):
    with pytest.raises(InputUnreadable, match=where):
        scamper.read([{**TRACE, **changed}])
