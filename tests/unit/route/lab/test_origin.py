# SPDX-License-Identifier: Apache-2.0
"""What the lab's servers say about themselves; the server itself runs in the kernel tests."""

from __future__ import annotations

from netdiag.route.lab.origin import answer, headers_for
from netdiag.route.lab.topology import load, shipped


def test_an_answer_has_the_sites_headers_and_a_body_only_where_one_is_wanted():
    whole, head = answer({"cf-ray": "1-FRA"}, with_body=True), answer({"cf-ray": "1-FRA"}, with_body=False)
    assert whole.startswith(head)
    assert b"\r\ncf-ray: 1-FRA\r\n" in head
    assert head.endswith(b"\r\n\r\n")


def test_a_site_of_two_places_says_which_one_answers():
    network = load(shipped()["two-ways"])
    local = ("203.0.113.10", 443)
    rays = {headers_for(network, local, ("198.18.255.2", port))["cf-ray"][-3:] for port in range(40_000, 40_050)}
    assert rays == {"FRA", "AMS"}


def test_one_place_says_the_same_to_all_and_strangers_hear_nothing():
    network = load(shipped()["plain"])
    assert headers_for(network, ("203.0.113.10", 443), ("198.18.255.2", 1))["cf-ray"].endswith("FRA")
    assert headers_for(network, ("192.0.2.1", 443), ("198.18.255.2", 1)) == {}
