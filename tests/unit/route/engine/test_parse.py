# SPDX-License-Identifier: Apache-2.0
"""Foreign bytes: read right where they are right, and never more than refused where they are not."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.engine import packet, parse
from netdiag.route.engine.packet import FlowKey
from netdiag.route.model import Kind, Label

FOUR = FlowKey(
    source=packet.packed("198.18.0.2"), destination=packet.packed("203.0.113.10"), source_port=40_000, port=443
)
SIX = FlowKey(
    source=packet.packed("2001:db8::2"), destination=packet.packed("2001:db8:1::10"), source_port=40_000, port=443
)
STACK = (
    Label(value=24_001, traffic_class=5, bottom=False, ttl=1),
    Label(value=9, traffic_class=0, bottom=True, ttl=254),
)


def extension(stack=STACK, *, kind=(1, 1), length=None, version=2):
    entries = b"".join(
        struct.pack("!I", label.value << 12 | label.traffic_class << 9 | label.bottom << 8 | label.ttl)
        for label in stack
    )
    block = struct.pack("!BBHHBB", version << 4, 0, 0, 4 + len(entries) if length is None else length, *kind) + entries
    return block[:2] + struct.pack("!H", packet.checksum(block)) + block[4:]


def message(kind, code, body, fields=b"\0\0\0\0"):
    head = struct.pack("!BBH", kind, code, 0) + fields
    return head[:2] + struct.pack("!H", packet.checksum(head + body)) + head[4:] + body


def test_an_exceeded_ttl_says_which_probe():
    error = parse.icmp(4, message(11, 0, packet.syn(FOUR, 1, 7, 99)))
    assert error is not None
    assert (error.kind, error.labels, error.mtu) == (Kind.TTL_EXCEEDED, (), None)
    assert (error.quoted.source, error.quoted.destination) == ("198.18.0.2", "203.0.113.10")
    assert (error.quoted.ttl, error.quoted.ip_id) == (1, 99)


@pytest.mark.parametrize(("claimed", "padded"), [(32, 128), (0, 128), (36, 144)])
def test_labels_are_found_where_the_message_says_or_where_old_ones_put_them(claimed, padded):
    body = packet.syn(FOUR, 1, 7, 99).ljust(padded, b"\0") + extension()
    error = parse.icmp(4, message(11, 0, body, bytes([0, claimed, 0, 0])))
    assert error is not None
    assert error.labels == STACK


def test_labels_of_ipv6_errors():
    body = packet.syn(SIX, 1, 7, 99).ljust(128, b"\0") + extension()
    error = parse.icmp(6, b"\x03\0\0\0" + bytes([16, 0, 0, 0]) + body)
    assert error is not None
    assert (error.kind, error.labels) == (Kind.TTL_EXCEEDED, STACK)


@pytest.mark.parametrize(
    ("version", "kind", "code", "what"),
    [
        (4, 3, 3, Kind.PORT_UNREACHABLE),
        (4, 3, 13, Kind.UNREACHABLE),
        (4, 3, 4, Kind.TOO_BIG),
        (4, 11, 1, None),
        (4, 0, 0, None),
        (6, 1, 4, Kind.PORT_UNREACHABLE),
        (6, 1, 1, Kind.UNREACHABLE),
        (6, 2, 0, Kind.TOO_BIG),
        (6, 3, 0, Kind.TTL_EXCEEDED),
        (6, 3, 1, None),
        (6, 129, 0, None),
    ],
)
def test_types_and_codes(version, kind, code, what):
    assert parse.error_kind(version, kind, code) is what


def test_a_too_big_message_says_what_fits():
    error = parse.icmp(4, message(3, 4, packet.syn(FOUR, 1, 7, 99), b"\0\0\x05\x14"))
    assert error is not None
    assert (error.kind, error.mtu) == (Kind.TOO_BIG, 1300)
    assert parse.mtu_of(6, Kind.TOO_BIG, struct.pack("!I", 1280)) == 1280
    assert parse.mtu_of(4, Kind.TOO_BIG, bytes(4)) is None
    assert parse.mtu_of(4, Kind.TTL_EXCEEDED, b"\0\0\x05\x14") is None


@pytest.mark.parametrize(
    "block",
    [
        extension(length=0xFFFF),
        extension(length=0),
        extension(length=3),
        extension(version=3),
        extension(kind=(2, 1)),
        extension()[:-1] + b"\x55",
        b"\x20\0\0\0\0\x10\x01\x01",
        b"",
    ],
)
def test_bad_extensions_hold_no_labels(block):
    assert parse.labels(bytes(128) + block, 128) == ()


def test_a_stack_ends_at_its_bottom_or_at_sixteen():
    endless = tuple(Label(value=7, traffic_class=0, bottom=False, ttl=1) for _ in range(60))
    assert len(parse.labels(extension(endless), 0)) == 16
    assert parse.labels(extension((*STACK, *STACK)), 0) == STACK


@pytest.mark.parametrize(
    "body",
    [b"", b"\x45" * 19, packet.syn(FOUR, 1, 7, 99)[:27], b"\x4f" + bytes(40), b"\x65" + bytes(60)],
    ids=["empty", "short", "cut", "options", "version"],
)
def test_quotes_that_are_no_packet_are_refused(body):
    assert parse.icmp(4, message(11, 0, body)) is None


def test_a_wrong_checksum_is_refused():
    data = bytearray(message(11, 0, packet.syn(FOUR, 1, 7, 99)))
    data[2] ^= 1
    assert parse.icmp(4, bytes(data)) is None


def test_a_quote_longer_than_the_message_is_refused():
    assert parse.icmp(4, message(11, 0, packet.syn(FOUR, 1, 7, 99), b"\0\xff\0\0")) is None


def test_segments():
    data = struct.pack("!HHIIBBHHH", 443, 40_000, 1, 2, 5 << 4, 0x12, 0, 0, 0)
    segment = parse.segment(data)
    assert segment == parse.Segment(source_port=443, port=40_000, sequence=1, acknowledged=2, flags=0x12)
    assert parse.segment(data[:19]) is None
    assert parse.segment(data[:12] + b"\x40" + data[13:]) is None


def test_whole_ipv4_packets_lose_their_header():
    data = packet.udp(FOUR, 9, 1)
    assert parse.strip_ipv4(data) == (9, "198.18.0.2", data[20:])
    assert parse.strip_ipv4(data[:19]) is None
    assert parse.strip_ipv4(b"\x4f" + data[1:30]) is None
    assert parse.strip_ipv4(b"") is None


@pytest.mark.fuzz
@given(st.sampled_from((4, 6)), st.binary(max_size=400))
def test_nothing_raises(version, data):
    parse.icmp(version, data)
    parse.icmp(version, message(11, 0, data, data[:4].ljust(4, b"\0")))
    parse.quoted(version, data)
    parse.labels(data, 0)
    parse.segment(data)
    parse.strip_ipv4(data)


@pytest.mark.fuzz
@given(st.data())
def test_a_message_with_flipped_bytes_is_read_or_refused(data):
    whole = bytearray(message(11, 0, packet.syn(FOUR, 1, 7, 99).ljust(128, b"\0") + extension(), b"\0\x20\0\0"))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    whole[2:4] = b"\0\0"
    whole[2:4] = struct.pack("!H", packet.checksum(bytes(whole)))
    error = parse.icmp(4, bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    assert error is None or len(error.quoted.transport) >= 8
