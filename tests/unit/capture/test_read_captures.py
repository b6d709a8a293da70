# SPDX-License-Identifier: Apache-2.0
"""Captures of real clients and servers, each with what its makers and tshark know of it.

Those named own_ are in the project. The others lie in the folder that NETDIAG_CAPTURES names: Zeek's and Suricata's own
test captures.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from netdiag import capture, tables
from netdiag.analysis import Options, examine

OWN = Path(__file__).resolve().parents[2] / "captures"
FOREIGN = os.environ.get("NETDIAG_CAPTURES")


@functools.cache
def seen(name):
    """Return tables and findings of a capture; skip where it is not there."""
    path = OWN / name
    if not name.startswith("own_"):
        if not FOREIGN:
            pytest.skip("NETDIAG_CAPTURES names no folder with the captures of other projects")
        path = Path(FOREIGN) / name
    built = tables.build(capture.read(path))
    return built, {finding.code: finding for finding in examine(built, Options()).findings}


def resumed(name):
    return seen(name)[0].handshakes["resumed"].tolist()


COUNTS = {
    # file: connections, requests (None: not counted), full and resumed handshakes
    "own_aiohttp_expiry15_gap16.pcap": (2, 2, 2, 0),
    "own_go_session_cache_tls13_resumed.pcap": (3, 3, 1, 2),
    "own_httpx_expiry5_gap6.5.pcap": (3, 3, 3, 0),
    "own_openai_429_ra1.pcap": (1, 3, 1, 0),
    "own_openai_sync_stream_conn_per_call.pcap": (4, 4, 4, 0),
    "own_proxy_504_after_2s.pcap": (1, 1, 1, 0),
    "own_requests_get_loop_tls13.pcap": (5, 5, 5, 0),
    "own_requests_session_10req_1conn.pcap": (1, 10, 1, 0),
    "own_server_idle3_gap4.2.pcap": (3, 3, 3, 0),
    "own_sse_plain_ok.pcap": (1, 1, 0, 0),
    "own_sse_plain_stall1.5s.pcap": (1, 1, 0, 0),
    "own_tls12_full_then_ticket_resume.pcap": (2, 2, 1, 1),
    "own_tls13_0rtt_accepted.pcap": (2, 2, 1, 1),
    "own_tls13_big_chain_19KB.pcap": (1, 1, 1, 0),
    "own_tls13_full_then_psk.pcap": (2, 2, 1, 1),
    "own_tls13_hrr_full_then_psk.pcap": (2, 2, 1, 1),
    "own_tls13_psk_rejected_unknown_ticket.pcap": (1, 1, 1, 0),
    "suricata-verify_http2-deflate-case_goaway.pcap": (1, None, 0, 0),
    "suricata-verify_ssl_version_negated.pcap": (7, 6, 1, 5),
    "zeek_1000-requests-one-dropped-response.pcap.gz": (1, 1000, 0, 0),
    "zeek_connect-with-header.pcap": (1, None, 0, 1),
    "zeek_google-cert-repeat.pcap": (8, 0, 8, 0),
    "zeek_hrr.pcap": (1, 0, 1, 0),
    "zeek_methods.pcap": (49, 49, 0, 0),
    "zeek_retransmit-fast009.pcap": (1, 1, 0, 0),
    "zeek_tls-13draft19-early-data.pcap": (2, 1, 1, 1),
    "zeek_tls13_psk_succesfull.pcap": (1, None, 0, 1),
}


def test_every_capture_of_the_folder_is_known():
    """A capture that somebody adds to the folder gets its row here."""
    there = {path.name for path in OWN.glob("*.pcap*")}
    there |= {path.name for path in Path(FOREIGN).glob("*.pcap*")} if FOREIGN else set()
    assert there - set(COUNTS) == set()


@pytest.mark.parametrize("name", COUNTS)
def test_connections_requests_and_handshakes(name):
    built, _ = seen(name)
    connections, requests, full, again = COUNTS[name]
    assert len(built.connections) == connections
    if requests is not None:
        assert len(built.requests) == requests
    assert (resumed(name).count(False), resumed(name).count(True)) == (full, again)
    assert len(built.handshakes) == full + again
    assert (built.handshakes["outcome"] == "completed").all()
    assert not built.connections["pid"].notna().any()
    assert not built.truncated


@pytest.mark.parametrize("name", COUNTS)
def test_nothing_of_a_capture_is_told_that_packets_do_not_show(name):
    built, findings = seen(name)
    for column in ("pid", "tid", "comm", "unread", "last_read_ns", "sends", "receives", "io_tids"):
        assert not built.connections[column].notna().any(), column
    assert not built.requests["reader_lag_ms"].notna().any()
    assert all(finding.subject.pid is None for finding in findings.values())


def test_a_capture_has_the_findings_that_its_makers_caused():
    assert seen("own_server_idle3_gap4.2.pcap")[1]["reuse.server-idle-timeout"].learned.value == pytest.approx(
        3, abs=0.05
    )
    found = seen("own_httpx_expiry5_gap6.5.pcap")[1]["reuse.client-idle-expiry"]
    assert (found.cause, found.count) == ("lazy", 2)
    assert found.learned.low <= 5 <= found.learned.high
    assert seen("own_tls13_big_chain_19KB.pcap")[1].keys() == {"tls.large-server-flight"}
    assert "tls.resumption-refused" in seen("own_tls13_psk_rejected_unknown_ticket.pcap")[1]
    assert "tls.hello-retry" not in seen("own_tls13_full_then_psk.pcap")[1]


def test_where_packets_do_not_decide_both_candidates_are_named():
    findings = seen("own_openai_sync_stream_conn_per_call.pcap")[1]
    for code in ("reuse.client-per-call", "reuse.stream-closed-early"):
        assert findings[code].cause == "unknown"
        assert findings[code].confidence <= 0.5
    assert findings["reuse.stream-closed-early"].severity == "info"


@pytest.mark.parametrize(
    "name", ["own_requests_session_10req_1conn.pcap", "own_sse_plain_ok.pcap", "own_tls13_full_then_psk.pcap"]
)
def test_what_is_well_has_no_warning(name):
    assert [finding.code for finding in seen(name)[1].values() if finding.severity != "info"] == []


def test_who_closed_goes_by_the_closing_alert():
    """The client's close_notify comes first, at 15.61 s; the first FIN is the server's."""
    first = next(seen("own_aiohttp_expiry15_gap16.pcap")[0].connections.itertuples())
    assert (first.closed_by, round(first.idle_before_close_ms / 1e3, 2)) == ("local", 15.61)


def test_the_server_closes_after_three_seconds_and_the_client_resets_at_its_next_use():
    rows = seen("own_server_idle3_gap4.2.pcap")[0].connections
    assert rows["closed_by"].tolist()[:2] == ["remote", "remote"]
    assert rows["close"].tolist()[:2] == ["fin", "fin"]
    assert rows["idle_before_close_ms"].tolist()[:2] == pytest.approx([3000, 3000], abs=10)


def test_retries_keep_the_pauses_that_the_server_asked_for():
    began = seen("own_openai_429_ra1.pcap")[0].requests["began_ns"].to_numpy() / 1e9
    assert (began[1:] - began[:-1]).tolist() == pytest.approx([1.0, 1.0], abs=0.02)


def test_a_proxy_that_gives_up_after_two_seconds():
    assert seen("own_proxy_504_after_2s.pcap")[0].requests["wait_ms"].tolist() == pytest.approx([2005], abs=10)


def test_tickets_resumption_retries_and_early_data():
    shakes = {name: seen(name)[0].handshakes for name in COUNTS if name.startswith("own_")}
    psk = shakes["own_tls13_full_then_psk.pcap"]
    assert psk["tickets_issued"].tolist() == [2, 1]
    assert psk["offered"].tolist() == ["none", "psk"]
    assert shakes["own_tls13_hrr_full_then_psk.pcap"]["hello_retry"].tolist() == [True, True]
    assert shakes["own_tls13_0rtt_accepted.pcap"]["early_data"].tolist() == ["none", "accepted"]
    refused = shakes["own_tls13_psk_rejected_unknown_ticket.pcap"]
    assert (refused["offered"].tolist(), refused["resumed"].tolist()) == (["psk"], [False])
    assert shakes["own_tls13_big_chain_19KB.pcap"]["server_flight_bytes"].tolist() == pytest.approx([19_800], abs=50)
    assert set(shakes["own_tls12_full_then_ticket_resume.pcap"]["version"]) == {"TLSv1.2"}


def test_a_handshake_that_was_asked_to_retry():
    built, _ = seen("zeek_hrr.pcap")
    assert built.handshakes["hello_retry"].tolist() == [True]
    assert built.handshakes["client_hello_bytes"].tolist() == [231]
    waited = (built.handshakes["started_ns"] - built.connections["established_ns"]).iloc[0] / 1e9
    assert waited == pytest.approx(1.0, abs=0.05)


def test_early_data_of_a_draft():
    shakes = seen("zeek_tls-13draft19-early-data.pcap")[0].handshakes
    assert shakes["early_data"].tolist() == ["none", "accepted"]
    assert shakes["version"].tolist() == ["TLSv1.3-draft19"] * 2
    assert seen("zeek_tls-13draft19-early-data.pcap")[0].connections["min_rtt_ms"].min() == pytest.approx(165, abs=3)


def test_sessions_that_are_never_offered_again():
    built, findings = seen("zeek_google-cert-repeat.pcap")
    assert findings["tls.resumption-not-offered"].confidence >= 0.8
    assert built.handshakes["tickets_issued"].tolist() == [1] * 8
    assert not any(code.startswith("reuse.") for code in findings)  # nothing was asked on them


def test_sessions_by_their_ids_and_resets_behind_a_close():
    built, _ = seen("suricata-verify_ssl_version_negated.pcap")
    assert set(built.handshakes["version"]) == {"TLSv1"}
    assert built.handshakes["offered"].tolist()[1:] == ["session_id"] * 5
    assert built.connections["outcome"].tolist() == ["timeout"] + ["established"] * 6
    assert set(built.connections["close"].tolist()[1:]) == {"fin"}


def test_a_handshake_behind_a_proxy():
    built, _ = seen("zeek_connect-with-header.pcap")
    [shake] = built.handshakes.itertuples()
    assert (shake.sni, shake.resumed, shake.version) == ("secure.newegg.com", True, "TLSv1.2")
    [row] = built.connections.itertuples()
    assert row.remote_name is None  # the other end is the proxy
    assert row.encrypted is True


def test_one_connection_for_a_thousand_requests():
    [row] = seen("zeek_1000-requests-one-dropped-response.pcap.gz")[0].connections.itertuples()
    assert (row.requests, row.closed_by, row.close) == (1000, "remote", "fin")


def test_a_timer_of_four_seconds_beside_a_server_that_closes_at_once():
    built, findings = seen("zeek_methods.pcap")
    idle = built.connections[built.connections["closed_by"] == "local"]["idle_before_close_ms"]
    assert (idle.round(-1) == 4000).sum() >= 10
    assert findings["reuse.client-idle-expiry"].learned.high == pytest.approx(4.0, abs=0.05)
    assert "reuse.server-close" in findings


def test_loss_inside_an_answer():
    built, findings = seen("zeek_retransmit-fast009.pcap")
    [row] = built.connections.itertuples()
    assert (row.retransmits, row.close) == (3, "rst")
    assert built.retransmits["by"].tolist() == ["remote"] * 3
    assert findings["tcp.retransmits"].count == 3
