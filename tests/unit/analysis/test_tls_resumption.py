# SPDX-License-Identifier: Apache-2.0
"""Sessions that were not resumed: why, what it costs, and when nothing is said."""

from __future__ import annotations

import pytest

from netdiag.analysis import run
from netdiag.findings import Severity
from netdiag.testing import connection, tables

GAP_MS = 1000.0


def play(shakes, *, gap=GAP_MS, ends=None, **columns):
    """Play handshakes of one program, one connection each, `gap` ms apart; True = resumed, False = full."""
    rows, links, now = [], [], 0.0
    for row, one in enumerate(shakes):
        pause = one.get("pause", gap)
        now += pause if row else 0.0
        default = {
            "connection": row, "started_ns": now * 1e6, "duration_ms": 10.0, "outcome": "completed",
            "version": "TLSv1.3", "cipher": "TLS_AES_256_GCM_SHA384", "offered": "none", "resumed": False,
            "early_data": "none", "hello_retry": False, "resumable": True, "tickets_issued": 2.0,
            "server_flight_bytes": 1365.0, "client_hello_bytes": 512.0,
        }  # fmt: skip
        rows.append(default | columns | {name: value for name, value in one.items() if name not in ("pause", "ip")})
        links.append(
            connection(
                opened_at=now - 2,
                established_at=now - 1,
                remote_ip=one.get("ip", "192.0.2.1"),
                rtt_ms=50.0,
                min_rtt_ms=50.0,
                requests=1.0,
                encrypted=True,
                **(ends or {}),
            )
        )
    return run(tables(connections=links, handshakes=rows, span_ms=now + 10_000))


def tls(findings):
    return {finding.code: finding for finding in findings if finding.code.startswith("tls.")}


Step = dict[str, object]
NEW: Step = {}
FULL: Step = {"offered": "psk"}
PSK: Step = {"offered": "psk", "resumed": True}


def test_tickets_that_are_never_offered():
    finding = tls(play([NEW] * 5))["tls.resumption-not-offered"]
    assert (finding.count, finding.of, finding.severity, finding.cost_ms) == (4, 5, Severity.INFO, None)


def test_session_ids_that_the_server_forgets_are_no_sessions():
    forgotten: Step = {"offered": "session_id"}
    old = {"version": "TLSv1.2", "tickets_issued": 0.0}
    found = tls(play([NEW, *[forgotten] * 3], **old))
    assert (found["tls.tickets-not-issued"].cause, "tls.resumption-refused" in found) == (
        "session-ids-forgotten",
        False,
    )
    assert "tls.tickets-not-issued" not in tls(play([NEW, *[forgotten] * 2], **old))
    known: Step = {"offered": "session_id", "resumed": True}
    assert "tls.resumption-refused" in tls(play([NEW, known, *[forgotten] * 3], **old))
    assert "tls.resumption-refused" in tls(play([NEW, *[forgotten] * 3], **old | {"tickets_issued": 1.0}))


def test_in_tls_12_each_costs_a_round_trip():
    finding = tls(play([NEW] * 5, version="TLSv1.2"))["tls.resumption-not-offered"]
    assert finding.cost_ms == pytest.approx(4 * 50)
    assert finding.severity is not Severity.INFO


def test_in_tls_13_only_a_chain_beyond_the_window_costs_one():
    finding = tls(play([NEW] * 5, server_flight_bytes=19_000.0))["tls.resumption-not-offered"]
    assert finding.cost_ms == pytest.approx(4 * 50)


@pytest.mark.parametrize(
    "shakes",
    [[NEW] * 3, [NEW, NEW, NEW, PSK, NEW], [NEW, *[NEW | {"offered": None}] * 4], [NEW | {"resumable": None}] * 5],
    ids=["too few", "offered once", "unknown", "nothing was given"],
)
def test_when_it_is_not_said_that_none_was_offered(shakes):
    assert "tls.resumption-not-offered" not in tls(play(shakes))


def test_handshakes_beside_the_first_could_offer_nothing():
    assert tls(play([NEW] * 8, gap=1.0)) == {}


def test_a_server_that_gives_nothing():
    found = tls(play([{"resumable": False, "tickets_issued": 0.0}] * 3))
    assert found["tls.tickets-not-issued"].count == 3
    assert "tls.resumption-not-offered" not in found
    assert "tls.tickets-not-issued" not in tls(play([{"resumable": False}] * 2))
    assert "tls.tickets-not-issued" not in tls(play([{"resumable": False}] * 3 + [NEW]))


@pytest.mark.parametrize(
    ("shakes", "cause"),
    [
        ([NEW, FULL, FULL, FULL], "always"),
        ([NEW, FULL], None),
        ([NEW, FULL, PSK, FULL, PSK, FULL, PSK], "some-nodes"),
        ([NEW, PSK | {"ip": "192.0.2.1"}, FULL | {"ip": "192.0.2.2"}, PSK | {"ip": "192.0.2.2"}], "some-nodes"),
        ([NEW, PSK, PSK, FULL, PSK, PSK], "after-reload"),
        ([NEW, *[PSK] * 5, FULL, *[PSK] * 5, FULL, *[PSK] * 5], "after-reload"),
        (
            [NEW, PSK, FULL | {"pause": 60_000.0}, PSK, PSK, FULL | {"pause": 70_000.0}],
            "expired",
        ),
        ([NEW | {"version": "TLSv1.2"}, FULL | {"version": "TLSv1.3"}], "changed-parameters"),
        ([NEW, FULL | {"cipher": "TLS_AES_128_GCM_SHA256"}], "changed-parameters"),
    ],
)
def test_why_a_session_was_refused(shakes, cause):
    finding = tls(play(shakes))["tls.resumption-refused"]
    assert finding.cause == cause
    assert finding.count == sum(one.get("offered") == "psk" and not one.get("resumed") for one in shakes)
    assert finding.severity is Severity.INFO


def test_the_lifetime_of_tickets_is_learned():
    shakes = [NEW, PSK, FULL | {"pause": 60_000.0}, PSK, FULL | {"pause": 70_000.0}]
    learned = tls(play(shakes))["tls.resumption-refused"].learned
    assert learned is not None
    assert (learned.name, learned.unit, round(learned.low), round(learned.high)) == ("ticket_lifetime", "s", 1, 60)


def test_sessions_that_are_taken_are_no_finding():
    assert tls(play([NEW, PSK, PSK, PSK, PSK])) == {}


def test_a_burst_larger_than_the_tickets():
    burst = [{"pause": 1000.0, **PSK}, *[{"pause": 1.0, **PSK}], *[{"pause": 1.0}] * 3]
    found = tls(play([NEW, *burst]))
    assert found["tls.ticket-shortage"].count == 3
    assert "tls.ticket-shortage" not in tls(play([NEW, *burst[:-1]]))


def test_early_data_that_was_refused():
    shakes = [NEW, PSK | {"early_data": "accepted"}, PSK | {"early_data": "refused"}]
    finding = tls(play(shakes))["tls.early-data-refused"]
    assert (finding.count, finding.of, finding.cost_ms) == (1, 2, 50)
    # with the session refused, that is the cause
    assert "tls.early-data-refused" not in tls(play([NEW, FULL | {"early_data": "refused"}]))


def test_early_data_that_could_be_used():
    shakes = [NEW, PSK | {"early_data": "accepted"}, PSK, PSK, PSK]
    finding = tls(play(shakes))["tls.early-data-unused"]
    assert (finding.count, finding.severity) == (3, Severity.INFO)
    assert "tls.early-data-unused" not in tls(play([NEW, PSK, PSK, PSK, PSK]))


def test_where_something_else_makes_the_connections_it_is_a_remark():
    ends = {
        "closed_by": "remote", "close": "fin", "idle_before_close_ms": 0.5, "closing_at": 0.0, "bytes_received": 900.0,
        "unread_close": False,
    }  # fmt: skip
    rows = [{"closing_at": row * GAP_MS + 500} for row in range(6)]
    links = [
        connection(
            **ends | row,
            opened_at=n * GAP_MS - 2,
            established_at=n * GAP_MS - 1,
            rtt_ms=50.0,
            min_rtt_ms=50.0,
            requests=1.0,
            encrypted=True,
        )
        for n, row in enumerate(rows)
    ]
    shakes = [
        {
            "connection": n,
            "started_ns": n * GAP_MS * 1e6,
            "duration_ms": 110.0,
            "outcome": "completed",
            "version": "TLSv1.2",
            "offered": "none",
            "resumed": False,
            "resumable": True,
        }
        for n in range(6)
    ]
    found = {finding.code: finding for finding in run(tables(connections=links, handshakes=shakes))}
    assert "reuse.server-close" in found
    assert found["tls.resumption-not-offered"].severity is Severity.INFO
    assert found["tls.old-version"].severity is Severity.INFO


def test_many_handshakes_are_no_burden():
    finding = tls(play([NEW, *[FULL, PSK] * 2500, *[NEW] * 2500], gap=300.0))["tls.resumption-refused"]
    assert (finding.cause, finding.count) == ("some-nodes", 2500)
