# SPDX-License-Identifier: Apache-2.0
"""What can be learnt from a segment of an open connection; the probes themselves run in the kernel tests."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.engine import packet, session
from netdiag.route.engine.packet import FlowKey
from netdiag.route.engine.parse import Segment
from netdiag.route.engine.session import Endpoints, Numbers, numbers_of

ENDS = Endpoints(local_ip="198.18.0.2", local_port=40_000, remote_ip="203.0.113.10", remote_port=443)
ACK, PSH, SYN, FIN, RST = 0x10, 0x08, 0x02, 0x01, 0x04


def segment(flags=ACK, sequence=100, acknowledged=200):
    return Segment(source_port=443, port=40_000, sequence=sequence, acknowledged=acknowledged, flags=flags)


def test_data_moves_what_is_expected():
    assert numbers_of(segment(), 0) == Numbers(acknowledged=200, expected=100)
    assert numbers_of(segment(ACK | PSH), 7) == Numbers(acknowledged=200, expected=107)
    assert numbers_of(segment(sequence=2**32 - 3), 5) == Numbers(acknowledged=200, expected=2)


@pytest.mark.parametrize("flags", [SYN | ACK, FIN | ACK, RST, RST | ACK, 0])
def test_nothing_is_learnt_while_a_connection_opens_or_closes(flags):
    assert numbers_of(segment(flags), 0) is None


def whole(body=b"", *, ports=(443, 40_000), source="203.0.113.10"):
    key = FlowKey(
        source=packet.packed(source), destination=packet.packed("198.18.0.2"), source_port=ports[0], port=ports[1]
    )
    return packet.acknowledgement(key, 64, 1, 2, 3) + body


def test_only_the_far_end_of_this_connection_counts():
    found = session._read_segment(ENDS, whole(b"abc"))
    assert found is not None
    assert (found[0].acknowledged, found[1]) == (2, 3)
    assert session._read_segment(ENDS, whole(source="203.0.113.11")) is None
    assert session._read_segment(ENDS, whole(ports=(443, 40_001))) is None
    assert session._read_segment(ENDS, b"") is None


def test_probes_are_valid_and_named_twice():
    data = whole()
    transport = data[20:]
    pseudo = data[12:20] + struct.pack("!II", len(transport), 6)
    assert packet.checksum(pseudo + transport) == 0
    assert struct.unpack("!H", data[4:6]) == struct.unpack("!H", transport[14:16]) == (3,)


@pytest.mark.fuzz
@given(st.binary(max_size=80))
def test_nothing_raises(data):
    session._read_segment(ENDS, data)
    session._read_segment(Endpoints(local_ip="::1", local_port=1, remote_ip="::2", remote_port=2), data)
