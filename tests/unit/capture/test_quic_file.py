# SPDX-License-Identifier: Apache-2.0
"""Files with QUIC and DNS, from bytes to findings: told is what tshark decodes, and a healthy one gets no warning."""

from __future__ import annotations

import shutil
import struct
import subprocess

import dns.message
import dns.rrset
import pytest

from tests.fakes import packets as p
from tests.fakes.quic_session import Passed, Version, shake
from tests.unit.capture.capturing import codes, table

CLIENT, SERVER = ("10.0.0.1", 50000), ("10.0.0.2", 443)


def datagram(source: tuple[str, int], target: tuple[str, int], payload: bytes) -> bytes:
    return p.ethernet(p.ip(source[0], target[0], p.udp(source[1], target[1], payload), protocol=17))


def file(*passed: Passed, port: int = 443) -> bytes:
    server, packets = (SERVER[0], port), []
    for number, one in enumerate(passed):
        client = (CLIENT[0], CLIENT[1] + number)
        for at_ns, sent, data in one.datagrams:
            ends = (client, server) if sent else (server, client)
            packets.append((at_ns / 1e9 + number, datagram(*ends, data)))
    return p.pcap(packets)


@pytest.mark.parametrize("port", [443, 23456])
def test_connections_of_a_file_are_told_on_any_port(port):
    first = shake()
    content = file(
        first, shake(ticket=first.ticket, early=True), shake(retry=True), shake(version=Version.VERSION_2), port=port
    )
    ends, shakes = table(content), table(content, "handshakes")
    assert ends["protocol"].tolist() == ["quic"] * 4
    assert ends["outcome"].tolist() == ["established"] * 4
    assert shakes["resumed"].tolist() == [False, True, False, False]
    assert shakes["sni"].tolist() == ["api.example.test"] * 4


def test_a_healthy_file_has_no_finding_above_info():
    found = codes(file(*(shake() for _ in range(6))))
    assert {code: finding.severity for code, finding in found.items() if finding.severity != "info"} == {}


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not here")
def test_tshark_reads_the_same_names_versions_and_suites(tmp_path):
    content = file(shake(alpn=["h3", "h3-29"]), shake(name="other.example.test", padding=150), shake(retry=True))
    path = tmp_path / "quic.pcap"
    path.write_bytes(content)
    kinds = ["tls.handshake.extensions_server_name", "tls.handshake.ciphersuite", "tls.handshake.type", "udp.srcport"]
    argv = ["tshark", "-r", str(path), "-Y", "tls.handshake", "-T", "fields"]
    done = subprocess.run(
        [*argv, *(word for kind in kinds for word in ("-e", kind))], capture_output=True, text=True, check=True
    )
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    names = {int(port): name for name, _, kind, port in rows if kind == "1" and name}
    suites = [int(suite, 16) for _, suite, kind, _ in rows if kind == "2"]
    ends, shakes = table(content), table(content, "handshakes")
    assert dict(zip(ends["local_port"].astype(int), shakes["sni"], strict=True)) == names
    assert len(suites) == len(shakes)
    assert set(suites) == {{"TLS_AES_256_GCM_SHA384": 0x1302, "TLS_AES_128_GCM_SHA256": 0x1301,
                            "TLS_CHACHA20_POLY1305_SHA256": 0x1303}[name] for name in shakes["cipher"]}  # fmt: skip


def test_names_that_are_looked_up_before_a_connection_are_told():
    asked = dns.message.make_query("api.example.test", "A")
    answered = dns.message.make_response(asked)
    answered.answer.append(dns.rrset.from_text("api.example.test.", 60, "IN", "A", "10.0.0.2"))
    resolver = ("10.0.0.53", 53)
    packets = [
        (0.0, datagram(("10.0.0.1", 5353), resolver, asked.to_wire())),
        (0.03, datagram(resolver, ("10.0.0.1", 5353), answered.to_wire())),
    ]
    packets += [(at + 0.031, data) for at, data in p.http().packets]
    content = p.pcap(packets)
    [look] = table(content, "resolutions").itertuples()
    assert (look.name, look.answers, look.duration_ms) == ("api.example.test", ["10.0.0.2"], pytest.approx(30))
    [end] = table(content).itertuples()
    assert end.remote_name == "api.example.test"


def test_a_look_up_over_tcp_is_told():
    asked = dns.message.make_query("api.example.test", "A").to_wire()
    back = dns.message.make_response(dns.message.from_wire(asked)).to_wire()
    talk = p.Talk(server=("10.0.0.53", 53)).open()
    for ours, data in ((True, asked), (False, back)):
        talk.say(ours, struct.pack(">H", len(data)) + data, after=0.01)
    [look] = table(talk.close().file(), "resolutions").itertuples()
    assert (look.name, look.transport, look.error) == ("api.example.test", "tcp", None)
