# SPDX-License-Identifier: Apache-2.0
"""The rare shapes one by one: where IP begins behind them, and what never ends or never fits."""

from __future__ import annotations

import random

import pytest

from netdiag.capture.rare import ETHERNET_IP, Fragments, behind_log, inside, link_payload, skip_extensions
from tests.fakes import packets as p

PACKET = p.ip("10.0.0.1", "10.0.0.2", b"x" * 40)


def test_labels_tags_and_frames_lead_to_ip():
    assert link_payload(PACKET, 0, len(PACKET), ETHERNET_IP) == 0
    tagged = b"\x00\x05\x08\x00" + PACKET
    assert link_payload(tagged, 0, len(tagged), 0x8100) == 4
    labelled = b"\x00\x01\x00\x40\x00\x02\x01\x40" + PACKET
    assert link_payload(labelled, 0, len(labelled), 0x8847) == 8
    assert link_payload(labelled, 0, 8, 0x8847) == -1
    assert link_payload(b"\x00\x01\x00\x40" * 30, 0, 120, 0x8847) == -1


@pytest.mark.parametrize("kind", [0x0806, 0, 0x05DD, 0x88CC])
def test_what_holds_no_ip(kind):
    assert link_payload(PACKET, 0, len(PACKET), kind) == -1


@pytest.mark.parametrize(
    "members",
    [
        b"",
        bytes(40),
        b"\x03\0\x09\0",
        b"\x04\0\x01\0" * 50 + b"\x05\0\x09\0\x45",
        b"\x08\0\x09\x001bcd",
    ],
)
def test_a_log_without_a_packet(members):
    raw = bytes(4) + members
    assert behind_log(raw + bytes(128), 0, len(raw)) == -1


def test_extension_headers_without_end():
    chain = bytes((0, 0)) + bytes(6)
    assert skip_extensions(chain * 40, 0, 0, 320) == (59, 320, 0, 0)
    assert skip_extensions(chain, 0, 0, 1)[0] == 59
    assert skip_extensions(bytes((6, 0)) + bytes(6), 60, 0, 8) == (6, 8, 0, 0)


def test_a_port_alone_is_no_tunnel():
    datagram = p.udp(5, 4789, b"just some text that is none")
    assert inside(datagram, 17, 0, len(datagram)) == (None, -1)


def parts(whole, size=8, number=1):
    key = (b"ends", number, 17)
    for at in range(0, len(whole), size):
        more = at + size < len(whole)
        yield key, 1 << 20 | (at // 8) << 4 | more, whole[at : at + size]


def test_fragments_in_any_order_with_repetitions():
    whole = bytes(range(200))
    for seed in range(30):
        draw = random.Random(seed)
        pieces = list(parts(whole, 24))
        pieces += draw.choices(pieces, k=3)
        draw.shuffle(pieces)
        found = [
            Fragments.add(box, key, mark, data, len(data), 0) for box in [Fragments()] for key, mark, data in pieces
        ]
        assert whole in found


def test_fragments_are_bounded():
    box = Fragments()
    for number in range(5000):
        key, mark, data = next(parts(bytes(64), 8, number))
        assert box.add(key, mark, data, len(data), number) is None
    assert len(box._waiting) <= 512
    assert box.lost >= 4000


def test_fragments_of_another_time_do_not_join():
    box = Fragments()
    (key, first, data), (_, last, rest) = parts(bytes(16), 8)
    assert box.add(key, first, data, 8, 0) is None
    assert box.add(key, last, rest, 8, 60_000_000_000) is None
    assert box.lost == 1
