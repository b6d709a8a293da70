# SPDX-License-Identifier: Apache-2.0
"""Which probe a packet answers: only one that repeats what nobody else could know, and never by its address."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.engine import match, packet
from netdiag.route.engine.match import Known
from netdiag.route.engine.packet import FlowKey
from netdiag.route.model import Clock, Kind, Matched, Protocol

SOURCE, TARGET, ROUTER = "198.18.0.2", "203.0.113.10", "198.18.1.1"
SEQUENCE = 0x12345678


def known(protocol, *, version=4, number=5):
    source, target = (SOURCE, TARGET) if version == 4 else ("2001:db8::2", "2001:db8:1::10")
    key = FlowKey(
        source=packet.packed(source),
        destination=packet.packed(target),
        source_port=40_000,
        port=443,
        magic=b"\xa1secret\xa2",
    )
    sent = Known(ip=target, port=443, protocol=protocol, version=version, flows={0: key})
    if protocol is Protocol.TCP:
        sent.sequences[SEQUENCE] = number
        sent.sent[number] = packet.syn(key, 3, SEQUENCE, 700)
    else:
        sent.sent[number] = (packet.udp if protocol is Protocol.UDP else packet.echo)(key, 3, 700)
    sent.numbers[700] = number
    return sent


def exceeded(sent, quote, *, number=5):
    """Return an ICMP time exceeded message; `quote` maps the sent packet to the quoted one."""
    body = bytes(quote(bytearray(sent.sent[number])))
    head = bytes([11, 0, 0, 0, 0, 0, 0, 0]) if sent.version == 4 else bytes([3, 0, 0, 0, 0, 0, 0, 0])
    return head[:2] + struct.pack("!H", packet.checksum(head + body)) + head[4:] + body


def reply_of(outcome):
    assert not isinstance(outcome, str), outcome
    number, make = outcome
    assert number == 5
    return make(1.5, Clock.KERNEL)


def put(at, value):
    def change(data):
        data[at : at + len(value)] = value
        return data

    return change


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("protocol", list(Protocol))
def test_a_router_that_quotes_the_probe_is_matched(protocol, version):
    sent = known(protocol, version=version)
    reply = reply_of(match.icmp(sent, exceeded(sent, lambda data: data), ROUTER, 250))
    assert (reply.kind, reply.ip, reply.rtt_ms, reply.ttl) == (Kind.TTL_EXCEEDED, ROUTER, 1.5, 250)
    assert reply.quote is not None
    assert (reply.quote.changed, reply.quote.ttl) == ((), 3)


@pytest.mark.parametrize(
    ("protocol", "matched"),
    [(Protocol.TCP, Matched.SEQUENCE), (Protocol.UDP, Matched.IP_ID), (Protocol.ICMP, Matched.SEQUENCE)],
)
def test_eight_quoted_bytes_are_enough(protocol, matched):
    sent = known(protocol)
    reply = reply_of(match.icmp(sent, exceeded(sent, lambda data: data[:28]), ROUTER, None))
    assert reply.matched is matched


@pytest.mark.parametrize(
    ("at", "value", "changed"),
    [
        (12, packet.packed("100.64.0.7"), ("source-ip",)),
        (16, packet.packed("100.64.0.8"), ("destination-ip",)),
        (20, b"\x11\x11", ("source-port",)),
        (4, b"\x22\x22", ("ip-id",)),
        (26, b"\x33\x33", ("checksum",)),
        (1, b"\x02", ("tos",)),
    ],
)
def test_translation_shows_in_the_quote(at, value, changed):
    sent = known(Protocol.UDP)
    reply = reply_of(match.icmp(sent, exceeded(sent, put(at, value)), ROUTER, None))
    assert reply.quote is not None
    assert reply.quote.changed == changed


@pytest.mark.parametrize("protocol", list(Protocol))
def test_a_quote_of_our_flow_with_another_number_is_mismatched(protocol):
    sent = known(protocol)
    numbers = {Protocol.TCP: 24, Protocol.UDP: 28, Protocol.ICMP: 26}
    strange = exceeded(
        sent, put(numbers[protocol], b"\xde\xad\xbe\xef" if protocol is not Protocol.ICMP else b"\xde\xad")
    )
    assert match.icmp(sent, strange, ROUTER, None) == "mismatched"


def test_an_ip_id_counts_only_where_the_payload_is_cut():
    sent = known(Protocol.UDP)
    other = put(28, b"somebody else's payload!")
    assert match.icmp(sent, exceeded(sent, other), ROUTER, None) == "mismatched"


def test_a_payload_under_another_port_is_mismatched():
    sent = known(Protocol.UDP)
    assert match.icmp(sent, exceeded(sent, put(22, b"\0\x35")), ROUTER, None) == "mismatched"


def test_other_programs_errors_are_foreign():
    sent = known(Protocol.TCP)
    others = known(Protocol.UDP)
    assert match.icmp(sent, exceeded(others, lambda data: data), ROUTER, None) == "foreign"
    elsewhere = exceeded(sent, put(20, b"\x99\x99\0\x50\1\2\3\4"))
    assert match.icmp(sent, elsewhere, ROUTER, None) == "foreign"


def segment(flags, acknowledged, *, ports=(443, 40_000)):
    return struct.pack("!HHIIBBHHH", *ports, 77, acknowledged, 5 << 4, flags, 1000, 0, 0)


@pytest.mark.parametrize(("flags", "kind"), [(0x12, Kind.SYN_ACK), (0x14, Kind.RST)])
def test_the_target_acknowledges_our_number(flags, kind):
    reply = reply_of(match.tcp(known(Protocol.TCP), segment(flags, SEQUENCE + 1), TARGET, 57))
    assert (reply.kind, reply.matched, reply.ttl) == (kind, Matched.SEQUENCE, 57)


@pytest.mark.parametrize(
    ("data", "ip", "why"),
    [
        (segment(0x12, SEQUENCE + 2), TARGET, "mismatched"),
        (segment(0x10, SEQUENCE + 1), TARGET, "mismatched"),
        (segment(0x04, SEQUENCE + 1), TARGET, "mismatched"),
        (segment(0x12, SEQUENCE + 1), ROUTER, "foreign"),
        (segment(0x12, SEQUENCE + 1, ports=(443, 40_001)), TARGET, "foreign"),
        (segment(0x12, SEQUENCE + 1, ports=(80, 40_000)), TARGET, "foreign"),
        (b"short", TARGET, "malformed"),
    ],
)
def test_other_segments_have_no_effect(data, ip, why):
    assert match.tcp(known(Protocol.TCP), data, ip, 57) == why


def test_the_last_sequence_number_wraps():
    sent = known(Protocol.TCP)
    sent.sequences[0xFFFFFFFF] = 5
    assert reply_of(match.tcp(sent, segment(0x12, 0), TARGET, None)).kind is Kind.SYN_ACK


@pytest.mark.parametrize("version", [4, 6])
def test_an_echo_must_bring_the_payload_back(version):
    sent = known(Protocol.ICMP, version=version)
    request = sent.transport(5)
    echo = bytes([0 if version == 4 else 129]) + request[1:]
    assert reply_of(match.icmp(sent, echo, sent.ip, 60)).kind is Kind.ECHO_REPLY
    assert match.icmp(sent, echo, ROUTER, 60) == "mismatched"
    assert match.icmp(sent, echo[:8] + bytes(16), sent.ip, 60) == "mismatched"
    assert match.icmp(sent, echo[:4] + b"\x01\x01" + echo[6:8] + bytes(16), sent.ip, 60) == "foreign"
    assert match.icmp(sent, echo[:7], sent.ip, 60) == "malformed"


def test_a_datagram_must_bring_the_payload_back():
    sent = known(Protocol.UDP)
    body = sent.transport(5)[8:]
    assert reply_of(match.udp(sent, body, TARGET, None)).kind is Kind.DATA
    assert match.udp(sent, body, ROUTER, None) == "mismatched"
    assert match.udp(sent, b"hello", TARGET, None) == "mismatched"


@pytest.mark.fuzz
@given(st.sampled_from(list(Protocol)), st.sampled_from((4, 6)), st.binary(max_size=120))
def test_foreign_bytes_never_match_and_never_raise(protocol, version, data):
    sent = known(protocol, version=version)
    assert isinstance(match.icmp(sent, data, ROUTER, None), str)
    assert isinstance(match.icmp(sent, exceeded(sent, lambda _: data), ROUTER, None), str)
    assert isinstance(match.tcp(sent, data, sent.ip, None), str)
    assert isinstance(match.udp(sent, data, sent.ip, None), str)


@pytest.mark.fuzz
@given(st.sampled_from(list(Protocol)), st.data())
def test_a_mangled_quote_matches_only_while_it_still_names_the_probe(protocol, data):
    sent = known(protocol)
    quote = bytearray(sent.sent[5])
    for _ in range(data.draw(st.integers(1, 3))):
        quote[data.draw(st.integers(0, len(quote) - 1))] ^= data.draw(st.integers(1, 255))
    cut = quote[: data.draw(st.integers(0, len(quote)))]
    outcome = match.icmp(sent, exceeded(sent, lambda _: cut), ROUTER, None)
    if not isinstance(outcome, str):
        key = sent.flows[0]
        assert outcome[0] == 5
        secret = {
            Protocol.TCP: struct.pack("!I", SEQUENCE) in cut,
            Protocol.UDP: key.magic in cut or cut[4:6] == struct.pack("!H", 700),
            Protocol.ICMP: cut[26:28] == struct.pack("!H", 700),
        }
        assert secret[protocol]
