# SPDX-License-Identifier: Apache-2.0
"""Keys as RFC 9001 and 9369 give them; packets of aioquic open, those of liars do no harm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from netdiag.decode import quic
from netdiag.decode.quic import Kind
from netdiag.decode.tls import read
from tests.fakes.mangle import mangled
from tests.fakes.quic_session import Version, shake

DESTINATION = bytes.fromhex("8394c8f03e515708")
"""Of the examples in RFC 9001 appendix A and RFC 9369 appendix A."""
RETRY_1 = bytes.fromhex("ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba")
RETRY_2 = bytes.fromhex("cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6")


def keys_of(packet: quic.Packet) -> tuple[quic.InitialKeys, quic.InitialKeys]:
    found = quic.initial_keys(packet.destination, packet.version)
    assert found is not None
    return found


EXAMPLE = quic.Packet(kind=Kind.INITIAL, version=1, destination=DESTINATION)


def only(data: bytes) -> quic.Packet:
    (packet,) = quic.packets(data)
    return packet


def test_keys_are_those_of_the_standards():
    client, server = keys_of(EXAMPLE)
    assert client.key.hex() == "1f369613dd76d5467730efcbe3b1a22d"
    assert client.iv.hex() == "fa044b2f42a3fd3b46fb255c"
    assert client.header.hex() == "9f50449e04a0e810283a1e9933adedd2"
    assert server.key.hex() == "cf3a5331653c364c88f0f379b6067e37"
    second, _ = keys_of(replace(EXAMPLE, version=0x6B3343CF))
    assert second.key.hex() == "8b1a0bc121284290a29e0971b5cd045d"
    assert second.header.hex() == "45b95e15235d6f45a6b19cbcb0294ba9"
    assert "1f36" not in repr(client)
    assert quic.initial_keys(DESTINATION, 0x0A0A0A0A) is None


@pytest.mark.parametrize("data", [RETRY_1, RETRY_2])
def test_a_retry_is_proved_by_its_tag(data):
    packet = only(data)
    assert packet.kind is Kind.RETRY
    assert packet.source.hex() == "f067a5502a4262b5"
    assert quic.is_retry_of(packet, DESTINATION)
    assert not quic.is_retry_of(packet, DESTINATION[1:])
    assert not quic.is_retry_of(only(data[:-1] + bytes([data[-1] ^ 1])), DESTINATION)


@pytest.mark.parametrize("version", [Version.VERSION_1, Version.VERSION_2])
def test_the_packets_of_a_handshake_open(version):
    passed = shake(version=version)
    kinds = [[packet.kind for packet in quic.packets(data)] for _, _, data in passed.datagrams]
    assert kinds[0] == [Kind.INITIAL]
    assert kinds[1] == [Kind.INITIAL, Kind.HANDSHAKE]
    assert kinds[-1] == [Kind.ONE_RTT]
    first, second = (next(quic.packets(data)) for _, _, data in passed.datagrams[:2])
    client, server = keys_of(first)
    contents = quic.open_initial(first, client)
    assert contents is not None
    hello = read(b"".join(part.data for part in contents.crypto)).client_hellos[0]
    assert (hello.sni, hello.alpn, hello.cut) == ("api.example.test", ("h3",), False)
    answer = quic.open_initial(second, server)
    assert answer is not None
    assert answer.acknowledges
    assert read(answer.crypto[0].data).server_hellos[0].is_13
    assert quic.open_initial(first, server) is None
    assert quic.open_initial(second, client) is None


def test_versions_have_names():
    assert [quic.version_name(number) for number in (1, 0x6B3343CF, 0xFF00001D, 0x1A2A3A4A)] == [
        "QUICv1", "QUICv2", "QUIC-draft29", "0x1a2a3a4a",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"\x40", b"\xc0\0\0\0\1", b"GET / HTTP/1.1", b"\xc0\0\0\0\1\xff" + b"a" * 40]
)
def test_what_is_no_packet_is_none_or_unopened(data):
    keys = keys_of(EXAMPLE)
    for packet in quic.packets(data):
        assert quic.open_initial(packet, keys[0]) is None


def test_a_packet_cut_by_the_snap_length_is_told():
    data = shake().datagrams[0][2][:200]
    packet = only(data)
    assert packet.cut
    assert quic.open_initial(packet, keys_of(packet)[0]) is None


@pytest.mark.fuzz
def test_any_mangled_datagram_is_read():
    good = [data for one in (shake(), shake(retry=True), shake(negotiate=True)) for _, _, data in one.datagrams[:4]]
    opened = closed = 0
    for data in mangled(good):
        found = list(quic.packets(data))
        assert len(found) <= 16
        assert sum(len(packet.data) for packet in found) <= len(data)
        for packet in found:
            assert len(packet.destination) <= 255
            quic.is_retry_of(packet, DESTINATION)
            keys = quic.initial_keys(packet.destination, packet.version)
            contents = quic.open_initial(packet, keys[0]) if keys else None
            opened, closed = opened + (contents is not None), closed + (contents is None)
    assert opened > 0
    assert closed > 0


@pytest.mark.fuzz
def test_any_contents_are_read():
    good = [
        b"\x06\x00\x41\x00" + b"x" * 256 + b"\0" * 800,
        b"\x02\x05\x01\x02\x00\x01\x01\x02\x01\x06\x00\x04abcd",
        b"\x1c\x41\x28\x06\x02no",
    ]
    for text in mangled(good):
        contents = quic._contents(0, text)
        assert sum(len(part.data) for part in contents.crypto) <= len(text)
    assert quic._contents(0, good[2]).close == quic.Close(code=0x128, application=False)
    assert quic._contents(0, good[1]).crypto[0].data == b"abcd"
