# SPDX-License-Identifier: Apache-2.0
"""The lab's name server, question by question."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.lab.resolver import Zone, respond
from netdiag.route.lab.topology import read

ZONE = Zone(
    read(
        {
            "title": "t",
            "networks": {"64500": "HomeNet"},
            "names": {"203.0.113.77": "spare.lab.test"},
            "sites": [
                {
                    "name": "api.lab.test",
                    "ips": ["203.0.113.10", "2001:db8:1::10"],
                    "asn": 64530,
                    "https": "1 . alpn=h2,h3",
                    "ways": [
                        {
                            "ms": 9.0,
                            "hops": [{"ip": "198.18.0.1", "ms": 1.0, "asn": 64500, "name": "ae1.ber.home.test"}],
                        }
                    ],
                }
            ],
        }
    )
)
TYPES = {"A": 1, "PTR": 12, "TXT": 16, "AAAA": 28, "HTTPS": 65}


def ask(name, qtype):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0" + labels + b"\0" + struct.pack("!HH", TYPES[qtype], 1)
    reply = respond(ZONE, query)
    assert reply is not None
    count, code = struct.unpack("!H", reply[6:8])[0], reply[3] & 15
    records, at = [], len(query)
    for _ in range(count):
        (length,) = struct.unpack("!H", reply[at + 10 : at + 12])
        records.append(reply[at + 12 : at + 12 + length])
        at += 12 + length
    assert at == len(reply)
    return code, records


@pytest.mark.parametrize(
    ("name", "qtype", "part"),
    [
        ("api.lab.test", "A", b"\xcb\0\x71\x0a"),
        ("API.Lab.Test", "AAAA", b"\x20\x01\x0d\xb8\0\1"),
        ("api.lab.test", "HTTPS", b"\0\1\0\0\1\0\6\2h2\2h3"),
        ("1.0.18.198.in-addr.arpa", "PTR", b"\3ae1\3ber"),
        ("77.113.0.203.in-addr.arpa", "PTR", b"\5spare"),
        ("1.0.18.198.origin.asn.cymru.com", "TXT", b"64500 | 198.18.0.0/24"),
        ("10.113.0.203.origin.asn.cymru.com", "TXT", b"64530 | "),
        ("AS64500.asn.cymru.com", "TXT", b"HomeNet"),
    ],
)
def test_what_it_knows(name, qtype, part):
    code, records = ask(name, qtype)
    assert (code, len(records)) == (0, 1)
    assert part in records[0]


def test_a_name_without_such_data_exists_and_another_does_not():
    assert ask("ae1.ber.home.test", "A") == (3, [])
    assert ask("1.0.18.198.in-addr.arpa", "A") == (0, [])


@pytest.mark.fuzz
@given(st.binary(max_size=80))
def test_no_question_breaks_it(data):
    for query in (data, b"\0\0\1\0\0\1\0\0\0\0\0\0" + data):
        reply = respond(ZONE, query)
        assert reply is None or reply[:2] == query[:2]
