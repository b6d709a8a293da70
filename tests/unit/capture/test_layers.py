# SPDX-License-Identifier: Apache-2.0
"""TCP and UDP found behind every link layer, tag, tunnel, extension and fragment, and nothing where there is none."""

from __future__ import annotations

import struct

import pytest

from netdiag.capture.container import Notes, batches
from netdiag.capture.layers import Layers
from netdiag.capture.source import open_source
from tests.fakes import packets as p

PAYLOAD = b"hello, this is payload"
SEGMENT = p.tcp(40000, 443, 7, 9, p.ACK, PAYLOAD, options=b"\x01\x01\x08\x0a" + bytes(8))
V4 = p.ip("10.0.0.1", "10.0.0.2", SEGMENT, number=77)
V6 = p.ip("2001:db8::1", "2001:db8::2", SEGMENT)
WIDE = p.ip("10.0.0.1", "10.0.0.2", SEGMENT, number=77, words=3)


def split(frames, link=1):
    layers = Layers()
    data = p.pcap([(number / 10, frame) for number, frame in enumerate(frames)], link=link)
    [batch] = batches(open_source(data), Notes())
    tcp, udp = layers.split(batch, batch.time_ns)
    return tcp, udp, layers


def payloads(part):
    return [part.raw[at : at + held] for at, held in zip(part.payload, part.held, strict=True)]


def ppp(kind, packet):
    return b"\xff\x03" + struct.pack(">H", kind) + packet


LINKS = {
    "ethernet": (1, p.ethernet(V4)),
    "ethernet, IPv6": (1, p.ethernet(V6)),
    "options": (1, p.ethernet(WIDE)),
    "padding": (1, p.ethernet(V4) + bytes(9)),
    "vlan": (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00" + V4),
    "q in q": (1, bytes(12) + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x86\xdd" + V6),
    "cooked 1": (113, bytes(14) + b"\x08\x00" + V4),
    "cooked 2": (276, b"\x86\xdd" + bytes(18) + V6),
    "raw": (101, V4),
    "raw, IPv6": (101, V6),
    "raw of BSD": (12, V4),
    "IPv4 alone": (228, V4),
    "loopback": (0, struct.pack("<I", 2) + V4),
    "loopback, other order": (108, struct.pack(">I", 30) + V6),
    "ppp": (9, ppp(0x21, V4)),
    "ppp without frame": (9, ppp(0x57, V6)[2:]),
    "ppp in hdlc": (50, ppp(0x21, V4)),
    "pppoe": (1, p.ethernet(b"\x11\x00\x00\x01" + struct.pack(">HH", len(V4) + 2, 0x21) + V4, 0x8864)),
    "mpls": (1, p.ethernet(b"\x00\x01\x00\x40" + b"\x00\x02\x01\x40" + V4, 0x8847)),
    "mpls pseudowire": (1, p.ethernet(b"\x00\x02\x01\x40" + bytes(4) + p.ethernet(V6), 0x8847)),
    "snap": (1, bytes(12) + struct.pack(">H", 8 + len(V4)) + b"\xaa\xaa\x03\x00\x00\x00\x08\x00" + V4),
    "ppp, protocol of one byte": (9, b"\xff\x03\x21" + V4),
    "ppp, protocol of one byte, no frame": (9, b"\x57" + V6),
    "pppoe, no ethernet": (51, b"\x11\x00\x00\x01" + struct.pack(">HH", len(V4) + 2, 0x21) + V4),
    "mpls, no ethernet": (219, b"\x00\x02\x01\x40" + V6),
    "nflog": (
        239,
        bytes(4)
        + struct.pack("<HH", 8, 1)
        + bytes(4)
        + struct.pack("<HH", 5, 10)
        + bytes(4)
        + struct.pack("<HH", 4 + len(V4), 9)
        + V4,
    ),
    "nflog, other order": (
        239,
        bytes(4) + struct.pack(">HH", 8, 1) + bytes(4) + struct.pack(">HH", 4 + len(V6), 9) + V6,
    ),
    "three tags": (1, bytes(12) + b"\x81\x00\x00\x05" * 3 + b"\x08\x00" + V4),
}


@pytest.mark.parametrize("name", LINKS)
def test_link_layers(name):
    link, frame = LINKS[name]
    tcp, udp, layers = split([frame], link)
    assert payloads(tcp) == [PAYLOAD]
    assert (int(tcp.source[0]), int(tcp.destination[0]), int(tcp.length[0])) == (40000, 443, len(PAYLOAD))
    assert len(udp.packet) == 0
    assert layers.unknown == {}


def outer(payload, protocol, six=False):
    ends = ("2001:db8::a", "2001:db8::b") if six else ("192.0.2.1", "192.0.2.2")
    return p.ethernet(p.ip(*ends, payload, protocol=protocol))


TUNNELS = {
    "ipip": outer(V4, 4),
    "6in4": outer(V6, 41),
    "ipip over IPv6": outer(V4, 4, six=True),
    "gre": outer(b"\x00\x00\x08\x00" + V4, 47),
    "gre with key and number": outer(b"\x30\x00\x86\xdd" + bytes(8) + V6, 47),
    "gre of ethernet": outer(b"\x00\x00\x65\x58" + p.ethernet(V4), 47),
    "vxlan": outer(p.udp(5555, 4789, b"\x08" + bytes(7) + p.ethernet(V4)), 17),
    "vxlan of linux": outer(p.udp(5555, 8472, b"\x08" + bytes(7) + p.ethernet(V6)), 17),
    "geneve": outer(p.udp(5555, 6081, b"\x02\x00\x65\x58\x00\x00\x01\x00" + bytes(8) + p.ethernet(V4)), 17),
    "tunnel in tunnel": outer(b"\x00\x00\x08\x00" + p.ip("192.0.2.3", "192.0.2.4", V4, protocol=4), 47),
}


@pytest.mark.parametrize("name", TUNNELS)
def test_the_flow_inside_a_tunnel_counts_and_the_tunnel_is_noted(name):
    tcp, udp, layers = split([p.ethernet(V4), TUNNELS[name], p.ethernet(V6)])
    assert payloads(tcp) == [PAYLOAD] * 3
    assert tcp.packet.tolist() == [0, 1, 2]
    assert len(udp.packet) == 0
    assert sum(layers.tunnels.values()) == (2 if name == "tunnel in tunnel" else 1)


def extension(kind, following):
    return bytes((following, 0)) + bytes(6) if kind != 51 else bytes((following, 1)) + bytes(10)


@pytest.mark.parametrize("kind", [0, 43, 51, 60])
def test_extension_headers_are_skipped(kind):
    packet = p.ip("2001:db8::1", "2001:db8::2", extension(kind, 6) + SEGMENT, protocol=kind)
    tcp, _, _ = split([p.ethernet(packet)])
    assert payloads(tcp) == [PAYLOAD]
    assert int(tcp.length[0]) == len(PAYLOAD)


def fragments(six):
    data = p.udp(53, 5353, bytes(range(200)) * 4)
    parts = [(0, data[:304], 1), (304, data[304:608], 1), (608, data[608:], 0)]
    if six:
        return [
            p.ethernet(
                p.ip(
                    "2001:db8::1", "2001:db8::2",
                    bytes((17, 0)) + struct.pack(">HI", at | more, 99) + part, protocol=44,
                )
            )
            for at, part, more in parts
        ]  # fmt: skip
    return [
        p.ethernet(p.ip("10.0.0.1", "10.0.0.2", part, protocol=17, number=5, fragment=at // 8 | more << 13))
        for at, part, more in parts
    ]


@pytest.mark.parametrize("six", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 1, 2, 0)])
def test_fragments_are_put_together(six, order):
    parts = fragments(six)
    tcp, udp, _ = split([p.ethernet(V4), *(parts[index] for index in order), p.ethernet(V4)])
    assert payloads(udp) == [bytes(range(200)) * 4]
    assert payloads(tcp) == [PAYLOAD, PAYLOAD]


def test_a_missing_fragment_gives_nothing():
    _, udp, _ = split(fragments(six=False)[:2])
    assert len(udp.packet) == 0


def test_a_segment_that_the_card_cuts_up_has_no_length_of_its_own():
    frame = bytearray(p.ethernet(p.ip("10.0.0.1", "10.0.0.2", p.tcp(1, 2, 3, 4, p.ACK, b"x" * 40_000))))
    frame[16:18] = b"\0\0"
    tcp, _, _ = split([bytes(frame)])
    assert int(tcp.length[0]) == 40_000


def test_what_is_cut_off_is_counted_as_passed():
    frame = p.ethernet(V4)
    data = p.pcap([(0, frame)], snap=len(frame) - 10)
    [batch] = batches(open_source(data), Notes())
    tcp, _ = Layers().split(batch, batch.time_ns)
    assert (int(tcp.length[0]), int(tcp.held[0])) == (len(PAYLOAD), len(PAYLOAD) - 10)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        bytes(14),
        p.ethernet(V4)[:30],
        p.ethernet(V4)[:40],
        p.ethernet(b"\x4f" + V4[1:]),
        p.ethernet(b"\x41" + V4[1:], 0x0800),
        p.ethernet(b"\x95" + V4[1:], 0x0800),
        outer(b"\x00\x00", 47),
        outer(p.udp(1, 4789, b""), 17)[:-3],
        p.ethernet(b"\x00\x01\x00\x40" * 20, 0x8847),
        p.ethernet(p.ip("2001:db8::1", "2001:db8::2", extension(0, 0) * 12 + SEGMENT, protocol=0)),
        bytes(12) + b"\x81\x00\x00\x05" * 40,
    ],
)
def test_what_does_not_fit_is_left_out(frame):
    tcp, _, _ = split([p.ethernet(V4), frame])
    assert payloads(tcp)[:1] == [PAYLOAD]
    assert len(tcp.packet) == 1


def test_other_links_are_counted():
    _, _, layers = split([b"x" * 60, b"y" * 60], link=147)
    assert layers.unknown == {"link type 147": 2}
