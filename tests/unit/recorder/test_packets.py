# SPDX-License-Identifier: Apache-2.0
"""Of packets only headers and handshakes without secrets are kept, however mangled; and only of traced connections."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import struct
import threading
import time
from typing import Any, cast

import pytest

from netdiag.recorder.packets import Packets, _ends, _key, cut
from netdiag.recording.format import Field, FieldKind, StreamLayout
from netdiag.recording.writer import RecordingWriter
from tests.fakes import handshake as tls
from tests.fakes import packets as p
from tests.fakes.mangle import mangled
from tests.fakes.tls_session import talk

SECRET = b"GET /?key=s3cr3t HTTP/1.1\r\n\r\n"


def packet(payload: bytes, *, six: bool = False) -> bytes:
    segment = p.tcp(40000, 443, 1, 1, p.ACK, payload)
    if six:
        return (
            struct.pack(">IHBB", 6 << 28, len(segment), 6, 64)
            + b"\x20\x01"
            + bytes(14)
            + b"\x20\x02"
            + bytes(14)
            + segment
        )
    return p.ip("10.0.0.1", "10.0.0.2", segment)


def record(kind: int, body: bytes) -> bytes:
    return bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body


HELLO = record(22, tls.modern(psk=True, early=True))


@pytest.mark.parametrize("six", [False, True])
def test_a_hello_stays_without_its_secrets_and_what_follows_goes(six):
    data = packet(HELLO + record(23, SECRET), six=six)
    kept, length = cut(data)
    assert length == len(data)
    assert kept[: len(packet(b"", six=six))] == data[: len(packet(b"", six=six))]
    assert kept.endswith(b"\x17\x03\x03" + len(SECRET).to_bytes(2, "big"))
    assert b"api.example" in kept or b"example" in kept
    assert b"s3cr3t" not in kept
    random = HELLO[5 + 6 : 5 + 38]
    assert random not in kept


@pytest.mark.parametrize(
    "payload", [SECRET, b"", record(23, SECRET), b"\x16\x03", b"\x16\x03\x01\x40\x00" + SECRET, b"\x15\x04" + SECRET]
)
def test_application_data_never_stay(payload):
    kept, _ = cut(packet(payload))
    assert b"s3cr3t" not in kept
    assert len(kept) <= len(packet(payload))


def test_alerts_in_the_clear_stay_and_sealed_records_do_not():
    alert = record(21, b"\x02\x30")
    assert cut(packet(alert))[0].endswith(alert)
    sealed = record(21, b"\x01" * 26)
    assert cut(packet(sealed))[0].endswith(sealed[:5])
    finished = record(20, b"\x01") + record(22, b"\x01\0\0\x20" + b"secret" * 6)
    assert b"secret" not in cut(packet(finished))[0]


def test_what_is_no_tcp_packet_is_nothing():
    for data in (b"", b"\x45", bytes(100), b"\x45" + bytes(30)):
        assert _ends(data) is None
        assert len(cut(data)[0]) <= len(data)


@pytest.mark.fuzz
def test_mangled_packets_lose_their_secrets_as_well():
    for data in mangled([packet(HELLO + record(23, SECRET)), packet(record(23, SECRET), six=True), packet(SECRET)]):
        kept, length = cut(data)
        assert len(kept) <= max(len(data), 0)
        assert length >= len(kept)


class _Facts:
    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def fact(self, kind: str, body: dict[str, Any]) -> None:
        self.all.append({"kind": kind, **body})


def _layout() -> StreamLayout:
    sizes = (("sport", 2), ("dport", 2), ("saddr", 16), ("daddr", 16))
    fields, at = [], 0
    for name, size in sizes:
        kind = FieldKind.UINT if size == 2 else FieldKind.BYTES
        fields.append(Field(name=name, type="x", offset=at, size=size, kind=kind))
        at += size
    return StreamLayout(stream=1, name="tcp", struct="t", size=36, offset=0, stride=36, fields=tuple(fields))


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="a packet socket needs CAP_NET_RAW")
def test_packets_of_a_real_connection_are_taken_once_and_only_if_it_was_traced():
    packets = Packets()
    try:
        ends = [_exchange() for _ in range(2)]
        time.sleep(0.05)
        mapped = bytes(10) + b"\xff\xff" + socket.inet_aton("127.0.0.1")
        packets.meet(_layout(), [memoryview(struct.pack("=HH", *ends[0]) + mapped + mapped)])
        facts = _Facts()
        packets.finish(cast("RecordingWriter", facts))
    finally:
        packets.close()
    found = [base64.b64decode(fact["data"]) for fact in facts.all if fact["kind"] == "packet"]
    assert found
    assert {_ends(data) for data in found} == {_key(mapped, ends[0][0], mapped, ends[0][1])}
    syns = [data for data in found if data[33] & 0x12 == 2]
    assert len(syns) == 1
    assert any(b"\x16\x03\x01" in data for data in found)
    assert not any(b"s3cr3t" in data for data in found)
    now = time.monotonic_ns()
    assert all(now - 10**10 < fact["at_ns"] <= now for fact in facts.all if fact["kind"] == "packet")
    (loss,) = [fact for fact in facts.all if fact["kind"] == "loss"]
    assert loss["probe"] == "packets"
    assert loss["seen"] >= len(found)


def _exchange() -> tuple[int, int]:
    """Say what a TLS client says, and something secret in the clear, over loopback; return both ports."""
    hello = talk([], version=ssl.TLSVersion.TLSv1_3).flights[0][1]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close() -> None:
            listener.accept()[0].close()

        thread = threading.Thread(target=close)
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(hello)
            client.sendall(SECRET)
            thread.start()  # not before: who closes with data unread resets
            ports = client.getsockname()[1], listener.getsockname()[1]
            thread.join()
        return ports
