# SPDX-License-Identifier: Apache-2.0
"""QUIC connections of aioquic, as they pass: what Initial packets tell is told, what is sealed stays unknown."""

from __future__ import annotations

import ipaddress
import random
from typing import Any

import pytest

from netdiag.capture.quic import QuicSink
from netdiag.capture.sink import Datagram
from netdiag.tables.quic import add
from tests.fakes.mangle import COUNT, mangled
from tests.fakes.quic_session import Passed, Version, shake

CLIENT = (b"\0" * 10 + b"\xff\xff" + bytes([192, 0, 2, 1]), 50000)
SERVER = (b"\0" * 10 + b"\xff\xff" + bytes([192, 0, 2, 2]), 443)


def feed(sink: QuicSink, passed: Passed, *, client=CLIENT, server=SERVER, shift_ns: int = 0) -> None:
    for at_ns, sent, data in passed.datagrams:
        source, destination = (client, server) if sent else (server, client)
        sink.datagram(
            Datagram(
                at_ns=at_ns + shift_ns, source=source, destination=destination, length=len(data), data=memoryview(data)
            )
        )


def facts(passed: Passed) -> list[Any]:
    sink = QuicSink()
    feed(sink, passed)
    return list(sink.finish().facts)


def rows(passed: Passed) -> tuple[dict[str, Any], dict[str, Any]]:
    tables: dict[str, Any] = {}
    add(tables, facts(passed), 0)
    ends, shakes = (tables[name].to_dict("records") for name in ("connections", "handshakes"))
    assert len(ends) == 1
    assert len(shakes) <= 1
    return ends[0], shakes[0] if shakes else {}


@pytest.mark.parametrize("version", [Version.VERSION_1, Version.VERSION_2])
def test_a_connection_is_told_by_its_initial_packets(version):
    end, handshake = rows(shake(version=version, alpn=["h3", "h3-29"]))
    assert (end["protocol"], end["outcome"], end["role"], end["encrypted"]) == ("quic", "established", "client", True)
    assert (end["local_ip"], end["local_port"]) == ("192.0.2.1", 50000)
    assert (end["remote_ip"], end["remote_port"], end["remote_name"]) == ("192.0.2.2", 443, "api.example.test")
    assert end["rtt_ms"] == pytest.approx(5, abs=0.1)
    assert handshake["duration_ms"] == pytest.approx(10, abs=0.1)
    assert (handshake["outcome"], handshake["version"], handshake["sni"]) == (
        "completed",
        "TLSv1.3",
        "api.example.test",
    )
    assert handshake["alpn_offered"] == ["h3", "h3-29"]
    assert (handshake["offered"], handshake["resumed"], handshake["early_data"]) == ("none", False, "none")
    assert handshake["cipher"].startswith("TLS_")
    assert handshake["group"]
    assert handshake["hello_retry"] is False
    assert handshake["server_flight_bytes"] > 1000


def test_what_is_sealed_stays_unknown():
    end, handshake = rows(shake())
    for name in ("bytes_sent", "bytes_received", "requests", "retransmits", "ended_ns", "connect_ms", "min_rtt_ms"):
        assert end[name] != end[name], name
    assert end["closed_by"] is None
    assert end["close"] is None
    assert handshake["alpn"] is None
    assert handshake["certificate_count"] != handshake["certificate_count"]
    assert handshake["tickets_issued"] != handshake["tickets_issued"]


def test_a_retry_costs_a_round_trip_and_is_seen():
    passed = shake(retry=True)
    found = facts(passed)
    assert len(found) == 1
    assert found[0]["retry_ns"] > found[0]["opened_ns"]
    end, handshake = rows(passed)
    assert handshake["duration_ms"] == pytest.approx(20, abs=0.2)
    assert end["rtt_ms"] == pytest.approx(5, abs=0.1)
    assert handshake["sni"] == "api.example.test"


def test_a_version_negotiation_alone_is_a_refusal():
    passed = shake(negotiate=True)
    assert facts(passed)[0]["refused"] == ["0x1a2a3a4a", "0x709a50c4"]
    end, handshake = rows(passed)
    assert end["outcome"] == "refused"
    assert handshake["outcome"] == "unfinished"


def test_resumption_and_early_data_are_seen():
    first = shake()
    end, handshake = rows(shake(ticket=first.ticket, early=True))
    assert (handshake["offered"], handshake["resumed"], handshake["early_data"]) == ("psk", True, "unknown")
    assert facts(shake(ticket=first.ticket, early=True))[0]["zero_rtt"] == 1
    assert end["outcome"] == "established"


def test_a_hello_over_several_datagrams_is_put_together_in_any_order():
    passed = shake(padding=150)
    assert rows(passed)[1]["client_hello_bytes"] > 1200
    first, second, *rest = passed.datagrams
    swapped = Passed(datagrams=[(first[0], True, second[2]), (second[0], True, first[2]), *rest], ticket=None)
    assert rows(swapped)[1]["sni"] == "api.example.test"
    assert rows(swapped)[1]["client_hello_bytes"] > 1200


def test_lost_initials_are_sent_again():
    passed = shake(drop=lambda number, client: client and number == 0)
    found = facts(passed)
    assert len(found) == 1
    assert rows(passed)[0]["outcome"] in ("established", "pending")


def test_a_client_without_an_answer_timed_out_or_waits():
    first = shake().datagrams[:1]
    assert rows(Passed(datagrams=first, ticket=None))[0]["outcome"] == "pending"
    later = Passed(datagrams=[*first, (first[0][0] + 9_000_000_000, False, b"\x40" * 30)], ticket=None)
    assert rows(later)[0]["outcome"] == "timeout"


def test_two_connections_from_one_port_are_two():
    sink = QuicSink()
    feed(sink, shake())
    feed(sink, shake(name="other.example.test"), shift_ns=10**9)
    found = list(sink.finish().facts)
    assert [fact["sni"] for fact in found] == ["api.example.test", "other.example.test"]
    tables: dict[str, Any] = {}
    add(tables, found, 0)
    assert list(tables["connections"]["id"]) == ["c1", "c2"]
    assert list(tables["handshakes"]["connection"]) == [0, 1]


def test_a_capture_that_begins_in_mid_connection_tells_nothing():
    passed = shake()
    assert facts(Passed(datagrams=passed.datagrams[1:], ticket=None)) == []


def test_the_port_of_a_server_is_listened_to_once_it_is_known():
    sink = QuicSink()
    assert 12345 not in sink.ports
    feed(sink, shake(), server=(SERVER[0], 12345))
    assert 12345 in sink.ports
    assert [fact["established_ns"] > 0 for fact in sink.finish().facts] == [True]


def test_ipv6_ends_are_named():
    six = ipaddress.ip_address("2001:db8::1").packed
    sink = QuicSink()
    feed(sink, shake(), client=(six, 5), server=(six, 443))
    tables: dict[str, Any] = {}
    add(tables, sink.finish().facts, 0)
    assert tables["connections"].iloc[0]["remote_ip"] == "2001:db8::1"
    assert tables["connections"].iloc[0]["family"] == "ipv6"


@pytest.mark.fuzz
def test_mangled_datagrams_do_no_harm():
    passed = [shake(), shake(retry=True), shake(version=Version.VERSION_2), shake(negotiate=True), shake(padding=150)]
    draw = random.Random(3)
    begun = told = 0
    for number in range(max(COUNT // 40, 50)):
        one = draw.choice(passed)
        sink = QuicSink()
        datagrams = [
            (at, who, next(mangled([data], 1, seed=number)) if draw.random() < 0.3 else data)
            for at, who, data in one.datagrams
        ]
        feed(sink, Passed(datagrams=datagrams, ticket=None))
        found = list(sink.finish().facts)
        tables: dict[str, Any] = {}
        add(tables, found, 0)
        begun, told = begun + len(found), told + len(tables.get("handshakes", ()))
        assert len(found) <= len(datagrams)
    assert begun >= told > 0
