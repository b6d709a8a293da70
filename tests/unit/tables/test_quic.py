# SPDX-License-Identifier: Apache-2.0
"""QUIC connections stand behind those of TCP with ids that go on; a broken fact is left out."""

from __future__ import annotations

from typing import Any

import pytest

from netdiag.recording.reader import Recording
from netdiag.tables import build
from netdiag.tables.quic import add
from netdiag.tables.schema import frame

HEADER = {"clock": {"monotonic_ns": 1000, "realtime_ns": 0, "boottime_ns": 0}, "host": {}, "target": {}}
MS = 1_000_000


def fact(**changed: Any) -> dict[str, Any]:
    """Return what is told of a connection that began 1 ms after the start and was ready 20 ms later."""
    at = {"opened": 1, "retry": None, "answered": 11, "hello": 1, "server_hello": 11, "ready": 12, "established": 21}
    at |= {"last_sent": 30, "last_received": 31, "file_ends": 40}
    return {
        "kind": "quic",
        "cookie": (1 << 61) + 1,
        "client": {"ip": "00000000000000000000ffffc0000201", "port": 50000},
        "server": {"ip": "00000000000000000000ffffc0000202", "port": 443},
        "version": "QUICv1",
        "refused": [],
        **{f"{name}_ns": 0 if ms is None else 1000 + ms * MS for name, ms in at.items()},
        "zero_rtt": 0,
        "repeated": 0,
        "flight_bytes": 1500,
        "closed": None,
        "sni": "api.example.test",
        "alpn": ["h3"],
        "hello_bytes": 300,
        "whole": True,
        "psk_offered": False,
        "early_offered": False,
        "tls": "TLSv1.3",
        "cipher": "TLS_AES_128_GCM_SHA256",
        "group": "X25519",
        "psk": False,
        "hello_retry": False,
        **changed,
    }


def built(*facts: dict[str, Any]) -> tuple[list[dict[Any, Any]], list[dict[Any, Any]]]:
    tables = build(Recording(header=HEADER, facts=list(facts), end={"exit_reason": "end-of-file", "at_ns": 10**9}))
    return tables.connections.to_dict("records"), tables.handshakes.to_dict("records")


def test_a_connection_and_its_handshake_are_rows():
    (end,), (handshake,) = built(fact())
    assert (end["id"], end["protocol"], end["handshake"], end["outcome"]) == ("c1", "quic", "h1", "established")
    assert (end["opened_ns"], end["established_ns"], end["rtt_ms"]) == (1 * MS, 21 * MS, 10.0)
    assert (handshake["connection"], handshake["duration_ms"], handshake["resumed"]) == (0, 20.0, False)


def test_they_stand_behind_others_and_ids_go_on():
    tables = {
        "connections": frame("connections", 2, {"id": ["c1", "c2"], "cookie": [1, 2]}),
        "handshakes": frame("handshakes", 1, {"id": ["h1"], "connection": [1]}),
    }
    add(tables, [fact(opened_ns=9 * MS, cookie=(1 << 61) + 7), fact()], 0)
    assert list(tables["connections"]["id"]) == ["c1", "c2", "c3", "c4"]
    assert list(tables["connections"]["cookie"] - (1 << 61))[2:] == [1, 7]
    assert list(tables["handshakes"]["id"]) == ["h1", "h2", "h3"]
    assert list(tables["handshakes"]["connection"]) == [1, 2, 3]
    assert tables["connections"]["handshake"].iloc[3] == "h3"


@pytest.mark.parametrize(
    ("changed", "outcome", "handshake"),
    [
        ({"established_ns": 0}, "pending", "unfinished"),
        ({"established_ns": 0, "answered_ns": 0, "server_hello_ns": 0}, "pending", "unfinished"),
        (
            {"established_ns": 0, "answered_ns": 0, "server_hello_ns": 0, "file_ends_ns": 9000 * MS},
            "timeout",
            "unfinished",
        ),
        (
            {"established_ns": 0, "closed": {"at_ns": 5, "client": False, "code": 376, "alert": "unknown_ca"}},
            "refused",
            "failed",
        ),
        ({"established_ns": 0, "answered_ns": 0, "refused": ["QUICv2"]}, "refused", "unfinished"),
    ],
)
def test_what_became_of_it_is_told(changed, outcome, handshake):
    (end,), (shake,) = built(fact(**changed))
    assert (end["outcome"], shake["outcome"]) == (outcome, handshake)
    assert shake["alert"] == ("unknown_ca" if "closed" in changed else None)
    assert shake["duration_ms"] != shake["duration_ms"]


@pytest.mark.parametrize(
    ("changed", "early"),
    [
        ({}, "none"),
        ({"early_offered": True, "psk": True}, "unknown"),
        ({"early_offered": True, "psk": False}, "refused"),
        ({"early_offered": True, "psk": True, "hello_retry": True}, "refused"),
        ({"early_offered": True, "tls": None, "established_ns": 0}, "offered"),
        ({"whole": False, "early_offered": None}, None),
    ],
)
def test_early_data_are_refused_only_where_that_is_seen(changed, early):
    assert built(fact(**changed))[1][0]["early_data"] == early


@pytest.mark.parametrize(
    "changed",
    [
        {"cookie": -1},
        {"cookie": "x"},
        {"opened_ns": None},
        {"opened_ns": 1 << 70},
        {"client": {"ip": "zz", "port": 1}},
        {"client": {"ip": "00" * 4, "port": 1}},
        {"server": {"ip": "00" * 16, "port": 70000}},
        {"server": None},
        {"alpn": [1]},
        {"alpn": "h3"},
        {"sni": 5},
        {"closed": []},
    ],
)
def test_broken_facts_are_left_out(changed):
    assert built(fact(**changed)) == ([], [])


def test_members_of_a_wrong_kind_are_unknown():
    ((end,), (shake,)) = built(fact(hello_bytes="x", hello_retry=3, closed={"alert": 3}))
    assert end["outcome"] == "established"
    assert shake["client_hello_bytes"] != shake["client_hello_bytes"]
    assert shake["hello_retry"] is None
    assert shake["alert"] is None
