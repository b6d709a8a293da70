# SPDX-License-Identifier: Apache-2.0
"""Only what the user asked for: hosts by address, block or name, ports, a stretch of time."""

from __future__ import annotations

import struct

import pytest

from netdiag.addresses import prefix
from netdiag.capture import Limits
from tests.fakes import packets as p
from tests.unit.capture.capturing import read, table

SHOP, BANK = p.http(), p.http(client=("2001:db8::1", 41000), at=10.0)
BANK = p.Talk(client=("2001:db8::1", 41000), server=("2001:db8::9", 8080), at=10.0).open().ask(p.REQUEST, p.ANSWER)
FILE = p.pcap(SHOP.packets + BANK.packets)
START = p.START_S * 1_000_000_000


def ports(**limits):
    return sorted(table(FILE, limits=Limits(**limits))["remote_port"].tolist())


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [80, 8080]),
        ({"ports": frozenset({80})}, [80]),
        ({"ports": frozenset({40000, 8080})}, [80, 8080]),
        ({"networks": (prefix("10.0.0.2"),)}, [80]),
        ({"networks": (prefix("10.0.0.0/8"),)}, [80]),
        ({"networks": (prefix("2001:db8::/32"),)}, [8080]),
        ({"networks": (prefix("192.0.2.0/24"),)}, []),
        ({"start_ns": 5_000_000_000, "relative": (True, False)}, [8080]),
        ({"end_ns": START + 5_000_000_000}, [80]),
        ({"start_ns": START, "end_ns": 1, "relative": (False, True)}, [80]),
    ],
)
def test_limits(limits, expected):
    assert ports(**limits) == expected


def test_the_recording_begins_and_ends_with_the_stretch():
    found = read(FILE, limits=Limits(start_ns=4_000_000_000, end_ns=11_000_000_000, relative=(True, True)))
    assert found.start_ns == START + 4_000_000_000
    assert found.end_ns <= START + 11_000_000_000


def test_names_are_those_of_name_resolution_blocks_and_hellos():
    names = p.block(4, struct.pack("<HH", 1, 15) + bytes([10, 0, 0, 2]) + b"shop.test\0\0" + struct.pack("<HH", 0, 0))
    data = p.section() + p.interface() + names
    data += b"".join(p.enhanced(round((p.START_S + at) * 1e6), frame) for at, frame in SHOP.packets + BANK.packets)
    rows = table(data, limits=Limits(networks=(), names=frozenset({"shop.test"})))
    assert rows["remote_port"].tolist() == [80]
    path = "tests/captures/own_go_session_cache_tls13_resumed.pcap"
    assert len(table(path, limits=Limits(networks=(), names=frozenset({"localhost"})))) == 3
    assert len(table(path, limits=Limits(networks=(), names=frozenset({"elsewhere"})))) == 0


def test_what_was_chosen_is_said():
    target = Limits(networks=(prefix("10.0.0.2"), prefix("2001:db8::/32")), ports=frozenset({443, 80})).target()
    assert target == {"hosts": ["10.0.0.2", "2001:db8::/32"], "port": [80, 443]}
