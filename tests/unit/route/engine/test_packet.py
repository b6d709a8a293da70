# SPDX-License-Identifier: Apache-2.0
"""Probe packets: valid, and alike in everything that routers hash."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.engine.packet import FlowKey, checksum, echo, fold, number_in, packed, payload, syn, udp
from netdiag.route.engine.parse import quoted

NUMBERS = st.integers(0, 0xFFFF)
TTLS = st.integers(1, 255)


def with_destination(key):
    target = packed("203.0.113.10") if key.version == 4 else packed("2001:db8:1::10")
    return FlowKey(
        source=key.source,
        destination=target,
        source_port=key.source_port,
        port=key.port,
        label=key.label,
        checksum=key.checksum,
        magic=key.magic,
    )


KEYS = st.builds(
    FlowKey,
    source=st.just(packed("198.18.0.2")) | st.just(packed("2001:db8::2")),
    destination=st.just(b""),
    source_port=st.integers(1, 0xFFFF),
    port=st.integers(1, 0xFFFF),
    label=st.integers(0, 0xFFFFF),
    checksum=st.integers(1, 0xFFFE),
    magic=st.binary(min_size=8, max_size=8),
).map(with_destination)


def split(key, data):
    """Return header, transport, and whether the transport checksum is right."""
    size = 20 if key.version == 4 else 40
    head, transport = data[:size], data[size:]
    number = head[9] if key.version == 4 else head[6]
    pseudo = key.source + key.destination + struct.pack("!II", len(transport), number) if number != 1 else b""
    return head, transport, checksum(pseudo + transport) == 0


@given(KEYS, TTLS, NUMBERS, st.integers(0, 2**32 - 1))
def test_a_syn_is_valid_and_names_its_probe(key, ttl, number, sequence):
    head, transport, right = split(key, syn(key, ttl, sequence, number))
    assert right
    assert transport[:4] == struct.pack("!HH", key.source_port, key.port)
    assert transport[4:8] == struct.pack("!I", sequence)
    assert key.version == 6 or checksum(head) == 0


@given(KEYS, TTLS, NUMBERS, NUMBERS)
def test_datagrams_of_a_flow_differ_only_where_no_router_looks(key, ttl, one, other):
    first, second = udp(key, ttl, one), udp(key, ttl, other)
    (_, transport, right), (_, again, _) = split(key, first), split(key, second)
    assert right
    assert transport[:8] == again[:8]  # ports, length and checksum
    assert number_in(transport[8:], key.magic) == one


@given(KEYS, TTLS, NUMBERS)
def test_every_echo_request_has_the_flows_checksum(key, ttl, number):
    _, transport, right = split(key, echo(key, ttl, number))
    assert right
    assert transport[:4] == struct.pack("!BBH", 8 if key.version == 4 else 128, 0, key.checksum)
    assert transport[4:8] == struct.pack("!HH", key.source_port, number)


@given(KEYS, TTLS, NUMBERS)
def test_whole_packets_are_read_as_they_were_built(key, ttl, number):
    data = udp(key, ttl, number)
    read = quoted(key.version, data)
    assert read is not None
    assert (read.ttl, read.protocol, read.length, read.tos) == (ttl, 17, len(data), 0)
    assert read.ip_id == (number if key.version == 4 else None)


@given(st.binary(max_size=40), st.binary(min_size=8, max_size=8))
def test_other_payloads_hold_no_number(data, magic):
    if not data.startswith(magic):
        assert number_in(data, magic) is None


@pytest.mark.parametrize("cut", range(12))
def test_a_payload_that_was_cut_holds_no_number(cut):
    assert number_in(payload(b"12345678", 7)[:cut], b"12345678") is None


@given(st.binary(max_size=60))
def test_a_checksum_makes_the_sum_of_all_words_zero(data):
    data += b"\0" * (len(data) % 2)
    assert checksum(data + struct.pack("!H", checksum(data))) == 0


def test_carries_come_round():
    assert fold(0x1FFFF) == 1
    assert packed("fe80::1%eth0") == packed("fe80::1")
