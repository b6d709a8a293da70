# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.route.aspath import as_path, served_from, siblings
from netdiag.route.gazetteer import gazetteer
from netdiag.route.hops import build
from netdiag.route.knowledge import IpFacts, Knowledge
from tests.fakes.routes import IP, trace


def path_of(*asns, target=64530, exchange=None, reached=True):
    """Return the AS path over hops with these numbers; None: unknown."""
    ips = [f"198.18.0.{at}" for at in range(1, len(asns) + 1)]
    facts = {
        ip: IpFacts(asn=asn, as_name=f"n{asn}", exchange="IX" if at == exchange else None)
        for at, (ip, asn) in enumerate(zip(ips, asns, strict=True))
    }
    facts[IP] = IpFacts(asn=target, as_name="goal")
    hops = [(ip, 1.0 + at) for at, ip in enumerate(ips)]
    path = build(trace([*hops, (IP, 50.0)] if reached else hops, reached=reached))
    return as_path(path.hops, Knowledge(ips=facts), IP, reached=reached)


def numbers(*asns, **more):
    return [step.asn for step in path_of(*asns, **more)]


def test_networks_in_order_the_targets_last():
    assert numbers(None, 64500, 64500, 64501, 64501) == [64500, 64501, 64530]
    assert numbers(64500, 64530) == [64500, 64530]


def test_a_visitor_between_two_hops_of_one_network_is_no_part():
    assert numbers(64500, 64999, 64500, 64501) == [64500, 64501, 64530]


def test_an_exchange_belongs_to_nobody_on_the_way():
    assert numbers(64500, 64777, 64501, exchange=1) == [64500, 64501, 64530]


def test_siblings_are_one_network():
    assert numbers(3356, 3549, 64501) == [3356, 64501, 64530]
    assert siblings()[3549] == 3356


def test_certainty():
    steps = path_of(64500, 64500, 64501)
    assert [(step.asn, step.certain, step.first_ttl, step.last_ttl) for step in steps] == [
        (64500, True, 1, 2),
        (64501, False, 3, 3),
        (64530, True, 4, 4),
    ]
    assert [step.name for step in steps] == ["n64500", "n64501", "goal"]


def test_an_unreached_target_is_still_the_end():
    assert numbers(64500, 64501, reached=False) == [64500, 64501, 64530]
    assert [step.asn for step in as_path((), Knowledge(), IP, reached=False)] == []


def test_places_that_operators_name_exist():
    assert set(served_from(13335)) <= set(gazetteer().codes)
    assert served_from(209242) == served_from(13335)
    assert served_from(64500) == ()
