# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import struct

import pytest

from netdiag.route.engine.packet import FlowKey, checksum, packed, syn
from netdiag.route.lab.meddle import changed

KEYS = {
    version: FlowKey(source=packed(source), destination=packed(target), source_port=40000, port=443)
    for version, source, target in ((4, "198.18.255.2", "203.0.113.10"), (6, "2001:db8::2", "2001:db8::10"))
}
HEAD = {4: 20, 6: 40}


def packet(version, *, ecn=False, marked=False, data=b""):
    """Return a SYN with right checksums."""
    raw = bytearray(syn(KEYS[version], 9, 7, 7) + data)
    head = HEAD[version]
    if ecn:
        raw[head + 13] |= 0xC0
    if marked and version == 4:
        raw[1] |= 2
    elif marked:
        raw[1] |= 0x20
    if version == 4:
        raw[2:4] = struct.pack("!H", len(raw))
        raw[10:12] = b"\0\0"
        raw[10:12] = struct.pack("!H", checksum(bytes(raw[:20])))
    else:
        raw[4:6] = struct.pack("!H", len(raw) - 40)
    raw[head + 16 : head + 18] = b"\0\0"
    raw[head + 16 : head + 18] = struct.pack("!H", tcp_sum(bytes(raw), version))
    return bytes(raw)


def tcp_sum(raw, version):
    head = HEAD[version]
    ends = raw[12:20] if version == 4 else raw[8:40]
    return checksum(ends + struct.pack("!II", len(raw) - head, socket.IPPROTO_TCP) + raw[head:])


def right(raw, version):
    return tcp_sum(raw, version) == 0 and (version == 6 or checksum(raw[:20]) == 0)


@pytest.mark.parametrize("version", [4, 6])
def test_each_box_does_its_one_thing_and_leaves_checksums_right(version):
    head = HEAD[version]
    offer, marked, data = packet(version, ecn=True), packet(version, marked=True), packet(version, data=b"x" * 9)
    assert right(offer, version)
    stripped = changed(offer, version, ("strip-ecn",))
    assert stripped is not None
    assert stripped[head + 13] == 2
    assert right(stripped, version)
    bleached = changed(marked, version, ("bleach-ecn",))
    assert bleached is not None
    assert not bleached[1] & (3 if version == 4 else 0x30)
    assert right(bleached, version)
    assert changed(offer, version, ("drop-ecn",)) is None
    assert changed(data, version, ("drop-data",)) is None


@pytest.mark.parametrize("version", [4, 6])
def test_ordinary_syns_pass_every_box_unchanged(version):
    plain = packet(version)
    assert changed(plain, version, ("bleach-ecn", "strip-ecn", "drop-ecn", "drop-data")) == plain
