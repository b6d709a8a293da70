# SPDX-License-Identifier: Apache-2.0
"""Two parties in one name are told when several facts agree; fleets, renewals and moves are not."""

from __future__ import annotations

import pytest

from netdiag.analysis import run
from netdiag.findings import Severity
from netdiag.tables.hellos import Chained
from netdiag.testing import connection, tables


def party(issuer, print_, *, fetchable=False, **more):
    return {"chain": (Chained(size=900, subject=1, issuer=issuer, fetchable=fetchable),), "server_print": print_} | more


HOST = party(2, "TLSv1.2 A X25519 23 65281", fetchable=True, cipher="TLS_A")
BOX = party(3, "TLSv1.2 B P-256 65281 23", cipher="TLS_B")
REFUSED = {"offered": "ticket"}
RESUMED = {"offered": "ticket", "resumed": True, "chain": None}


def play(*shakes, remotes=(), **columns):
    rows = [
        {
            "connection": row, "started_ns": row * 1e9, "duration_ms": 10.0, "outcome": "completed",
            "version": "TLSv1.2", "offered": "none", "resumed": False, "hello_retry": False, "early_data": "none",
            "client_hello_bytes": 300.0, "server_flight_bytes": 1365.0, "server_ms": 1.0, "client_ms": 1.0,
            "sni": "api.test", "client_print": "client",
        } | columns | shake
        for row, shake in enumerate(shakes)
    ]  # fmt: skip
    links = [
        connection(
            opened_at=row * 1000.0 - 3, established_at=row * 1000.0 - 1, rtt_ms=0.1, min_rtt_ms=0.1, requests=1.0,
            encrypted=True, remote_ip=remotes[row] if remotes else "192.0.2.1",
        )
        for row in range(len(shakes))
    ]  # fmt: skip
    found = run(tables(connections=links, handshakes=rows, span_ms=60_000.0))
    return {finding.code: finding for finding in found}


def test_two_parties_in_turn():
    finding = play(HOST, BOX, HOST, HOST, BOX)["tls.interception"]
    assert (finding.count, finding.of, finding.confidence, finding.severity) == (2, 5, 0.6, Severity.WARNING)
    assert "TLS_A instead of TLSv1.2 with TLS_B" in finding.evidence[0].note


def test_refused_sessions_make_it_likelier_and_are_no_finding_of_their_own():
    found = play(HOST, BOX | REFUSED, HOST | REFUSED, HOST, BOX | REFUSED)
    assert (found["tls.interception"].confidence, found["tls.interception"].cause) == (0.75, "sessions-refused")
    assert "tls.resumption-refused" not in found


def test_the_party_whose_certificate_tells_nothing_of_its_issuer_is_the_odd_one():
    assert play(HOST, BOX, BOX, BOX, HOST)["tls.interception"].count == 3


@pytest.mark.parametrize(
    ("name", "shakes"),
    [
        ("one party", [HOST] * 6),
        ("mixed nodes", [HOST, HOST | {"server_print": "TLSv1.2 C X25519"}] * 3),
        ("a renewed certificate in turn", [HOST, HOST | {"chain": BOX["chain"]}] * 3),
        ("a move", [HOST, HOST, HOST, BOX, BOX, BOX]),
        ("once", [HOST, HOST, BOX, HOST]),
        ("other offers", [HOST, BOX | {"client_print": "another"}] * 3),
        ("sessions that both take", [HOST, BOX, HOST, BOX | RESUMED, BOX]),
        ("hidden", [HOST | {"chain": None}, BOX | {"chain": None}] * 3),
        ("no name", [HOST | {"sni": None}, BOX | {"sni": None}] * 3),
        ("three", [HOST, BOX, party(4, "TLSv1.2 D")] * 3),
        ("failed", [HOST, BOX | {"outcome": "failed"}] * 3),
    ],
)  # fmt: skip
def test_what_is_none(name, shakes):
    assert "tls.interception" not in play(*shakes), name


def test_two_networks_that_serve_one_name_have_addresses_of_their_own():
    assert "tls.interception" not in play(*[HOST, BOX] * 3, remotes=["192.0.2.1", "192.0.2.2"] * 3)
