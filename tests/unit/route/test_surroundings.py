# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from netdiag.route import hops
from netdiag.route.document import build
from netdiag.route.knowledge import Knowledge
from netdiag.route.model import Kind, Protocol, Vantage
from netdiag.route.surroundings import TUNNELS, is_proxied, notes
from netdiag.route.survey import Inputs, examine
from tests.fakes.routes import IP, connect, measured, reply, trace

NOWHERE = Vantage()
NEAR = [("192.168.77.1", 0.6), (IP, 0.9)]
FAR = [("192.168.77.1", 0.6), ("198.18.0.1", 2.0), ("198.18.1.1", 7.0), ("198.18.2.1", 8.0), (IP, 9.0)]


def path(rows, protocol=Protocol.TCP):
    made = trace(rows)
    if protocol is Protocol.UDP:
        closed = reply(IP, rows[-1][1], Kind.PORT_UNREACHABLE)
        probes = [replace(one, reply=closed) if one.ttl == len(rows) else one for one in made.probes]
        made = replace(made, probes=tuple(probes))
    return hops.build(replace(made, protocol=protocol))


def said(vantage=NOWHERE, target=None, way=None, seconds=()):
    return " | ".join(notes(vantage, target, way or path(FAR), seconds))


def test_an_ordinary_line_gets_no_note():
    assert said(Vantage(interface="eth0", interface_kind="virtio_net")) == ""
    assert said(Vantage(interface="lo")) == ""


@pytest.mark.parametrize("kind", TUNNELS)
def test_every_tunnel_is_named_with_its_device(kind):
    text = said(Vantage(interface="vpn0", interface_kind=kind))
    assert "tunnel (vpn0:" in text


def test_a_proxy_of_the_environment_is_named():
    assert "proxy.example:3128" in said(Vantage(proxy="proxy.example:3128"))


def test_a_box_that_opens_connections_for_the_target():
    tcp, udp = path(NEAR), path(FAR, Protocol.UDP)
    assert "TCP ends at hop 2 (0.9 ms) and UDP goes on to hop 5 (9.0 ms)" in said(way=tcp, seconds=[udp])
    assert is_proxied(None, tcp, [udp])


def test_what_is_no_such_box():
    tcp, udp = path(FAR), path(FAR, Protocol.UDP)
    assert not is_proxied(None, tcp, [udp])
    assert not is_proxied(None, path(NEAR), ())
    assert not is_proxied(None, path(NEAR), [path(NEAR, Protocol.UDP)])
    other = hops.build(replace(trace(FAR, ip="203.0.113.99"), protocol=Protocol.UDP))
    assert not is_proxied(None, path(NEAR), [other]), "a way to another address tells nothing"
    slow = [("192.168.77.1", 0.6), (IP, 8.8)]
    assert not is_proxied(None, path(slow), [udp]), "the same distance in time: a way that hides its routers"


def judged(rows, ms, pop):
    found = examine(
        measured(traces=[trace(rows)], connects=[connect([ms] * 12, pop=pop)]), Knowledge(), Inputs(baseline_ms=9.0)
    )
    return build(found)


def test_an_answer_that_names_a_place_beyond_light_behind_a_short_way_is_no_verdict():
    document = judged(NEAR, 0.9, "FRA")
    assert (document["detour"]["verdict"], document["detour"]["class"]) == ("unknown", "contradictory")
    assert any("sooner than light" in note for note in document["paths"][0]["notes"])


def test_a_wrong_name_at_the_end_of_a_long_way_leaves_the_verdict():
    """Some networks name the place of the origin's side: a header is not always that of this end."""
    document = judged([*FAR[:-1], (IP, 3.0)], 3.0, "SIN")
    assert document["detour"]["verdict"] == "none"
    assert document["addresses"][0]["place"]["refuted_by"]


def test_silent_hops_hold_who_answered_another_protocol():
    tcp = trace([FAR[0], None, FAR[2], None, FAR[4]])
    udp = replace(trace([FAR[0], FAR[1], ("198.18.1.99", 7.0), None, FAR[4]]), protocol=Protocol.UDP)
    (whole,) = build(examine(measured(traces=[tcp, udp], connects=[connect([9.0] * 12)]), Knowledge()))["paths"]
    shown = [[(one["ip"], one["via"]) for one in hop["responders"]] for hop in whole["hops"]]
    assert shown == [[("192.168.77.1", None)], [("198.18.0.1", "udp")], [("198.18.1.1", None)], [], [(IP, None)]]
