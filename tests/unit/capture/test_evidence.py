# SPDX-License-Identifier: Apache-2.0
"""The file of evidence holds the packets of named connections, and other tools read it."""

from __future__ import annotations

import base64
import shutil
import subprocess
from typing import Any

import pytest

from netdiag.capture.evidence import pcapng, select
from tests.fakes import handshake as tls
from tests.fakes import packets as p

CLOCK = {"monotonic_ns": 1_000, "realtime_ns": 1_700_000_000_000_000_000, "boottime_ns": 0}
HELLO = b"\x16\x03\x01" + len(tls.modern()).to_bytes(2, "big") + tls.modern()


def fact(at_ns: Any, port: int, payload: bytes = b"", flags: int = p.ACK, **more: Any) -> dict[str, Any]:
    data = p.ip("10.0.0.1", "10.0.0.2", p.tcp(port, 443, 1, 1, flags, payload))
    return {"kind": "packet", "at_ns": at_ns, "length": len(data), "data": base64.b64encode(data).decode()} | more


def document() -> dict[str, Any]:
    ends = [
        {"id": f"c{number}", "pid": 7, "comm": "python3\x1b[2J", "local": {"ip": "10.0.0.1", "port": port},
         "remote": {"ip": "10.0.0.2", "port": 443, "name": "api.example.test"}}
        for number, port in ((1, 40001), (2, 40002), (3, 40003))
    ]  # fmt: skip
    finding = {"severity": "warning", "code": "tls.hello-retry", "title": "Asked twice"}
    evidence = [
        {"kind": "connection", "id": "c1"},
        {"kind": "handshake", "id": "h2"},
        {"kind": "connection", "id": "c9"},
    ]
    return {
        "connections": ends,
        "handshakes": [{"id": "h2", "connection": "c2"}],
        "requests": [],
        "processes": [],
        "findings": [finding | {"evidence": evidence}],
    }


FACTS = [
    fact(5_000, 40001, HELLO),
    fact(2_000, 40001, flags=p.SYN),
    fact(6_000, 40002, HELLO),
    fact(7_000, 40003, HELLO),
]


def test_named_connections_are_chosen_and_said_whose_they_are():
    found = select(FACTS, CLOCK, document())
    assert [one.at_ns - CLOCK["realtime_ns"] for one in found] == [1_000, 4_000, 5_000]
    first, second, third = (one.comment for one in found)
    assert first is not None
    assert first.splitlines()[1] == "warning tls.hello-retry: Asked twice"
    assert "(pid 7) → api.example.test:443, connection c1" in first
    assert second is None
    assert third is not None
    assert "connection c2" in third


@pytest.mark.parametrize(
    "broken",
    [{"data": "?"}, {"data": 3}, {"data": ""}, {"at_ns": "1"}, {"data": "RQ=="}, {"length": -4}, {"length": None}],
)
def test_broken_facts_are_left_out_or_mended(broken):
    found = select([fact(5_000, 40001, HELLO) | broken], CLOCK, document())
    assert all(one.length >= len(one.data) > 0 for one in found)
    assert len(found) == ("length" in broken)


def test_without_findings_the_file_is_empty_and_says_so():
    found = select(FACTS, CLOCK, document() | {"findings": []})
    assert found == []
    assert b"nothing" in pcapng(found, comment="nothing")


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not here")
def test_tshark_shows_comments_and_decodes_hellos(tmp_path):
    path = tmp_path / "evidence.pcapng"
    path.write_bytes(pcapng(select(FACTS, CLOCK, document()), comment="3 packets"))
    fields = ["-e", "tls.handshake.extensions_server_name", "-e", "frame.comment", "-e", "frame.time_epoch"]
    done = subprocess.run(["tshark", "-r", path, "-T", "fields", *fields], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] != "" for row in rows] == [False, True, True]
    assert "connection c1" in rows[0][1]
    assert "tls.hello-retry" in rows[0][1]
    assert "\x1b" not in done.stdout
    assert rows[0][2].startswith("1700000000.000001")
