# SPDX-License-Identifier: Apache-2.0
"""Handshakes from records and messages together: retries, early data, client certificates, both ends, gaps."""

from __future__ import annotations

import base64
import zlib

import pytest

from netdiag.decode.kept import redact
from netdiag.tables import build
from netdiag.testing import START_NS, RecordingBuilder
from tests.fakes import handshake as tls

# at ms, direction, type, length, first byte, second byte
FULL13 = [
    (1, "send", 22, 512, 1, 0), (3, "receive", 22, 122, 2, 0), (3, "receive", 20, 1, 1, 0),
    (3, "receive", 23, 1212, 0, 0), (7, "send", 20, 1, 1, 0), (7, "send", 23, 69, 0, 0),
    (8, "receive", 23, 250, 0, 0), (8, "receive", 23, 250, 0, 0),
]  # fmt: skip
RETRY13 = [
    (1, "send", 22, 512, 1, 0), (3, "receive", 22, 88, 2, 0), (3, "receive", 20, 1, 1, 0), (4, "send", 20, 1, 1, 0),
    (4, "send", 22, 512, 1, 0), (6.5, "receive", 22, 187, 2, 0), (6.5, "receive", 23, 1212, 0, 0),
    (7, "send", 23, 69, 0, 0),
]  # fmt: skip
PSK13 = [
    (1, "send", 22, 581, 1, 0), (1, "send", 20, 1, 1, 0), (1, "send", 23, 120, 0, 0), (3, "receive", 22, 128, 2, 0),
    (3, "receive", 23, 92, 0, 0),
]  # fmt: skip


def recorded(records, client=None, server=None, session="f2f2f2f2", **members):
    builder = RecordingBuilder().connection([], srtt=1200, min_rtt=1000, **members)
    for at, side, kind, length, first, second in records:
        builder.record(
            "tls_record", cookie=1, time=START_NS + round(at * 1e6), type=kind, length=length, first=first,
            second=second, version=3, direction=1 if side == "send" else 2,
        )  # fmt: skip
    for number, (side, data) in enumerate((("send", client), ("receive", server)), 1):
        if data is not None:
            packed = base64.b64encode(zlib.compress(redact(data))).decode()
            builder.fact(
                "hello", cookie=1, direction=side, at_ns=START_NS + 10**6, whole=True, session=session, id=number,
                data=packed,
            )  # fmt: skip
    return build(builder.recording())


def handshake(records, *messages, **members):
    (row,) = recorded(records, *messages, **members).handshakes.to_dict("records")
    return row


def test_messages_tell_what_headers_cannot():
    row = handshake(FULL13, tls.modern(), tls.server_hello_13())
    assert (row["cipher"], row["group"], row["sni"]) == ("TLS_AES_256_GCM_SHA384", "X25519", "api.example.test")
    assert (row["offered"], row["resumed"], row["tickets_issued"], row["resumable"]) == ("ticket", False, 2, True)


def test_a_retry_is_no_older_version_and_costs_a_round_trip():
    row = handshake(RETRY13, tls.modern(), tls.server_hello_13(retry=True) + tls.server_hello_13())
    assert (row["version"], row["hello_retry"], row["outcome"]) == ("TLSv1.3", True, "completed")
    assert (row["duration_ms"], row["server_ms"], row["client_ms"]) == pytest.approx((6, 2.5, 1.5))
    assert row["network_ms"] == pytest.approx(2)
    assert row["server_flight_bytes"] == 187 + 1212 + 2 * 5


def test_a_retry_is_seen_without_messages_too():
    row = handshake(RETRY13)
    assert (row["version"], row["hello_retry"], row["resumed"]) == ("TLSv1.3", True, False)


@pytest.mark.parametrize(
    ("before", "early"), [([(4, "send", 23, 21, 0, 0)], "accepted"), ([], "refused")], ids=["ended", "not ended"]
)
def test_what_became_of_early_data(before, early):
    records = [*PSK13, *before, (4, "send", 23, 69, 0, 0)]
    row = handshake(records, tls.modern(psk=True, early=True), tls.server_hello_13(psk=True))
    assert (row["early_data"], row["resumed"], row["outcome"]) == (early, True, "completed")


def test_early_data_of_a_handshake_under_way_is_only_offered():
    row = handshake(PSK13, tls.modern(psk=True, early=True), tls.server_hello_13(psk=True))
    assert (row["early_data"], row["outcome"], row["resumed"]) == ("offered", "unfinished", None)


def test_a_ticket_whose_message_was_lost_is_counted_by_its_record():
    records = [
        (1, "send", 22, 512, 1, 0), (3, "receive", 22, 900, 2, 0), (4, "send", 22, 37, 16, 0), (4, "send", 20, 1, 1, 0),
        (4, "send", 22, 40, 9, 7), (6, "receive", 22, 202, 4, 0), (6, "receive", 20, 1, 1, 0),
        (6, "receive", 22, 40, 4, 9),  # encrypted, and by chance like the start of another ticket
    ]  # fmt: skip
    flight = tls.flight_12()
    assert handshake(records, tls.client_hello(), flight[: -len(tls.ticket_12())])["tickets_issued"] == 1
    assert handshake([*records[:5], *records[6:]], tls.client_hello(), flight)["tickets_issued"] == 1


CERTIFIED = [*FULL13[:5], (7, "send", 23, 25, 0, 0), (7, "send", 23, 69, 0, 0)]


def test_a_client_certificate_that_is_refused():
    ended = {"kind": 3, "closed_by": 2, "close": 1, "closing": START_NS + 9_000_000}
    refused = handshake([*CERTIFIED, (8, "receive", 23, 19, 0, 0)], **ended)
    assert (refused["outcome"], refused["resumed"]) == ("failed", None)
    accepted = handshake([*CERTIFIED, (8, "receive", 23, 900, 0, 0), (9, "receive", 23, 19, 0, 0)], **ended)
    assert accepted["outcome"] == "completed"


def test_an_idle_server_that_says_goodbye_has_refused_nothing():
    ended = {"kind": 3, "closed_by": 2, "close": 1, "closing": START_NS + 9_000_000}
    assert handshake([*FULL13[:6], (8, "receive", 23, 19, 0, 0)], **ended)["outcome"] == "completed"


def test_a_server_of_tls_12_that_never_finishes_has_not_agreed():
    records = [
        (1, "send", 22, 512, 1, 0), (3, "receive", 22, 900, 2, 0), (4, "send", 22, 37, 16, 0), (4, "send", 20, 1, 1, 0),
        (4, "send", 22, 40, 9, 7), (6, "receive", 21, 2, 2, 40),
    ]  # fmt: skip
    row = handshake(records, kind=3, closed_by=2, close=1, closing=START_NS + 7_000_000)
    assert (row["outcome"], row["alert"], row["version"]) == ("failed", "handshake_failure", "TLSv1.2")


def test_at_a_servers_end_the_round_trip_is_the_clients():
    mirrored = [(at, "receive" if side == "send" else "send", *rest) for at, side, *rest in FULL13]
    row = handshake(mirrored, role=2)
    assert (row["server_ms"], row["client_ms"], row["network_ms"]) == pytest.approx((2, 3, 1))
    assert row["outcome"] == "completed"


def test_without_a_round_trip_nobody_is_blamed():
    row = recorded(FULL13).handshakes.iloc[0]
    assert row["network_ms"] + row["server_ms"] + row["client_ms"] == pytest.approx(row["duration_ms"])


def test_a_connection_names_its_handshake_and_its_first_request_carries_it():
    data = [*FULL13, (9, "send", 23, 400, 0, 0), (30, "receive", 23, 700, 0, 0)]
    tables = recorded([*data, (40, "send", 23, 400, 0, 0), (60, "receive", 23, 700, 0, 0)], opened=0)
    assert tables.connections["handshake"].tolist() == ["h1"]
    first, second = tables.requests.to_dict("records")
    assert (first["tls_ms"], second["tls_ms"]) == pytest.approx((6, 0))
    assert first["client_setup_ms"] == pytest.approx(0.9)
    for row in (first, second):
        parts = ("connect_ms", "client_setup_ms", "tls_ms", "queue_ms", "send_ms", "wait_ms", "receive_ms")
        total = sum(row[name] for name in (*parts, "reader_lag_ms", "unattributed_ms") if row[name] == row[name])
        assert total == pytest.approx(row["total_ms"])


def test_the_server_is_named_as_the_connections_own_hello_names_it():
    made = recorded(FULL13, tls.modern())
    assert made.connections["remote_name"].tolist() == ["api.example.test"]


def test_a_traced_servers_peer_is_not_who_the_hello_names():
    mirrored = [(at, "receive" if side == "send" else "send", *rest) for at, side, *rest in FULL13]
    made = recorded(mirrored, None, role=2)
    assert made.connections["remote_name"].tolist() == [None]


def test_through_a_proxy_the_name_is_not_that_of_the_other_end():
    builder = RecordingBuilder().connection([], srtt=1200, min_rtt=1000)
    rows = [(0.5, "send", 0, 0, 4, 0), *FULL13]
    for at, side, kind, length, first, second in rows:
        builder.record(
            "tls_record", cookie=1, time=START_NS + round(at * 1e6), type=kind, length=length, first=first,
            second=second, version=3, direction=1 if side == "send" else 2,
        )  # fmt: skip
    data = base64.b64encode(zlib.compress(redact(tls.modern()))).decode()
    builder.fact("hello", cookie=1, direction="send", at_ns=START_NS + 10**6, whole=True, session=None, id=1, data=data)
    made = build(builder.recording())
    assert (made.handshakes["sni"].tolist(), made.connections["remote_name"].tolist()) == (["api.example.test"], [None])
