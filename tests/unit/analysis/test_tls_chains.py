# SPDX-License-Identifier: Apache-2.0
"""A chain without the server's issuer is named when somebody suffers from it, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from netdiag.analysis import run
from netdiag.findings import Severity
from netdiag.tables.hellos import Chained
from netdiag.testing import connection, tables

LEAF, MIDDLE, ROOT, OTHER = 1, 2, 3, 4


def cert(subject, issuer, *, fetchable=False):
    return Chained(size=900, subject=subject, issuer=issuer, fetchable=fetchable)


ALONE = (cert(LEAF, MIDDLE),)
WHOLE = (cert(LEAF, MIDDLE), cert(MIDDLE, ROOT))
REFUSED: dict[str, Any] = {"outcome": "failed", "alert": "unknown_ca", "duration_ms": float("nan")}
SILENT: dict[str, Any] = REFUSED | {"alert": None}


def play(*shakes, fetches=(), remote="192.0.2.1", **ends):
    """Play handshakes of TLS 1.2, a second apart; `fetches` are instants (ms) of connections to port 80."""
    rows = [
        {
            "connection": row, "started_ns": row * 1e9, "duration_ms": 40.0, "outcome": "completed",
            "version": "TLSv1.2", "offered": "none", "resumed": False, "hello_retry": False, "early_data": "none",
            "client_hello_bytes": 300.0, "server_flight_bytes": 1365.0, "server_ms": 1.0, "client_ms": 30.0,
            "sni": "api.test", "chain": ALONE,
        } | shake
        for row, shake in enumerate(shakes)
    ]  # fmt: skip
    links = [
        connection(
            opened_at=row * 1000.0 - 3, established_at=row * 1000.0 - 1, rtt_ms=0.1, min_rtt_ms=0.1,
            encrypted=True, bytes_received=900.0, remote_ip=remote, **({"requests": 1.0} | ends),
            **({"closed_by": "local", "close": "fin", "closing_at": row * 1000.0 + 20} if "outcome" in shake else {}),
        )
        for row, shake in enumerate(shakes)
    ]  # fmt: skip
    links += [connection(opened_at=at, established_at=at + 1, remote_port=80, encrypted=False) for at in fetches]
    found = run(tables(connections=links, handshakes=rows, span_ms=60_000.0))
    return {finding.code: finding for finding in found if finding.code.startswith("tls.")}


@pytest.mark.parametrize("alert", ["unknown_ca", "bad_certificate", "certificate_unknown"])
def test_a_chain_of_one_that_is_refused(alert):
    found = play(*[REFUSED | {"alert": alert}] * 3)
    finding = found["tls.incomplete-chain"]
    assert "tls.handshake-failed" not in found
    assert (finding.count, finding.of, finding.cause, finding.severity) == (3, 3, "refused", Severity.CRITICAL)
    assert finding.confidence == 0.65
    assert finding.cost_ms == 60


def test_once_is_enough():
    assert play(REFUSED)["tls.incomplete-chain"].count == 1


def test_an_issuer_that_was_seen_elsewhere_and_is_no_root_makes_it_certain():
    assert play(REFUSED, {"chain": WHOLE})["tls.incomplete-chain"].confidence == 0.95


def test_an_issuer_that_is_published_makes_it_likelier():
    assert play(REFUSED | {"chain": (cert(LEAF, MIDDLE, fetchable=True),)})["tls.incomplete-chain"].confidence == 0.8


def test_a_chain_with_the_wrong_issuer():
    finding = play(REFUSED | {"chain": (cert(LEAF, MIDDLE), cert(OTHER, ROOT))})["tls.incomplete-chain"]
    assert "none of them the issuer" in finding.title


def test_others_that_accept_the_same_make_it_a_guess():
    assert play(REFUSED, {}, {})["tls.incomplete-chain"].confidence == 0.5


def test_a_program_that_gives_up_without_a_word():
    assert play(SILENT)["tls.incomplete-chain"].confidence == 0.5


@pytest.mark.parametrize(
    "shakes",
    [
        [{}] * 5,  # accepted by everybody
        [REFUSED | {"chain": (cert(LEAF, LEAF),)}],  # its own issuer
        [REFUSED | {"chain": WHOLE}],  # all that has to be there
        [REFUSED | {"chain": None}],  # encrypted
        [REFUSED | {"chain": (cert(None, None),)}],
        [REFUSED | {"alert": "handshake_failure"}],
        [REFUSED | {"alert": "certificate_expired"}],
        [REFUSED, {"chain": (cert(LEAF, MIDDLE), cert(MIDDLE, MIDDLE))}],  # the issuer is a root
    ],
)
def test_what_is_none(shakes):
    assert "tls.incomplete-chain" not in play(*shakes)


def test_what_else_fails_is_still_told():
    found = play(REFUSED, REFUSED | {"chain": None, "alert": "handshake_failure"})
    assert found["tls.incomplete-chain"].count == 1
    assert found["tls.handshake-failed"].count == 1


def test_a_program_that_fetches_the_issuer_first():
    finding = play(*[{}] * 3, fetches=[5.0, 1005.0, 2005.0])["tls.incomplete-chain"]
    assert (finding.cause, finding.count, finding.cost_ms) == ("fetched", 3, 90)


@pytest.mark.parametrize("fetches", [[5.0, 1005.0], [45.0, 1045.0, 2045.0], [-5.0, 995.0, 1995.0]])
def test_requests_at_other_times_are_no_fetches(fetches):
    assert "tls.incomplete-chain" not in play(*[{}] * 3, fetches=fetches)


QUIET: dict[str, Any] = {"requests": 0.0, "closed_by": "local", "close": "fin", "closing_at": 50.0}


def test_a_program_that_refuses_after_the_handshake():
    finding = play(*[{}] * 3, **QUIET)["tls.incomplete-chain"]
    assert (finding.count, finding.cause, finding.confidence) == (3, "refused", 0.5)
    assert "tls.incomplete-chain" not in play(*[{}] * 2, **QUIET), "it may have connected ahead of need"
    assert "tls.incomplete-chain" not in play(*[{}] * 3, **QUIET | {"closed_by": "remote"})
    assert "tls.incomplete-chain" not in play(*[{"chain": WHOLE}] * 3, **QUIET)
