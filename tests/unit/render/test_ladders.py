# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

from netdiag.render import ladders
from tests.fakes import documents


def shake(number, **changes: Any):
    return {
        "id": f"h{number}",
        "connection": 0,
        "started_ns": number * 1e6,
        "duration_ms": 10.0 + number,
        "outcome": "completed",
        "version": "TLSv1.3",
        "sni": "api.example.com",
        "offered": "none",
        "resumed": False,
        "hello_retry": False,
        "client_hello_bytes": 517,
        "server_flight_bytes": 3200,
        "network_ms": 4.0,
        "server_ms": 5.0,
        "client_ms": 1.0,
    } | changes


def drawn(*rows):
    tables = documents.tables([documents.connection(1)])
    tables = replace(tables, handshakes=documents.rows("handshakes", rows))
    return ladders.draw(documents.build(documents.recording(), tables, []))


def test_kinds_are_apart_and_the_median_is_shown():
    found = drawn(shake(1), shake(2), shake(9), shake(4, resumed=True, offered="psk"))
    assert [ladder.title for ladder in found] == [
        "api.example.com: TLSv1.3, full, completed · 3 ×",
        "api.example.com: TLSv1.3, resumed, completed · 1 ×",
    ]
    assert dict(found[0].times) == {"network": "4.0 ms", "server": "5.0 ms", "client": "1.0 ms", "whole": "12 ms"}
    assert "offers a session" in found[1].steps[0].label


def test_a_retry_is_two_more_arrows():
    (once,), (twice,) = drawn(shake(1)), drawn(shake(1, hello_retry=True))
    assert len(twice.steps) == len(once.steps) + 2
    assert [step.to_server for step in twice.steps] == [True, False, True, False, True]


def test_tls_12_ends_with_the_server_and_a_refusal_with_an_alert():
    (old,) = drawn(shake(1, version="TLSv1.2"))
    assert old.steps[-1].label == "Finished"
    assert not old.steps[-1].to_server
    (refused,) = drawn(shake(1, version=None, outcome="failed", alert="handshake_failure"))
    assert refused.steps[-1].label == "alert handshake_failure"
    assert "Finished" not in refused.words


def test_hostile_names():
    (found,) = drawn(shake(1, sni="a\x1b[31m\u202e"))
    assert "\x1b" not in found.title
    assert "\u202e" not in found.words
