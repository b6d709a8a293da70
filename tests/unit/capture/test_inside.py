# SPDX-License-Identifier: Apache-2.0
"""Messages of an encrypted handshake are counted, bounded and never kept; mangled ones do no harm."""

from __future__ import annotations

import json

import pytest

from netdiag.capture.inside import Inside
from tests.fakes.mangle import mangled


def sized(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width, "big") + data


def extension(kind: int, data: bytes) -> bytes:
    return kind.to_bytes(2, "big") + sized(data, 2)


EXTENSIONS = sized(extension(16, sized(sized(b"h2", 1), 2)) + extension(42, b""), 2)
CERTIFICATES = sized(b"", 1) + sized(b"".join(sized(b"secret" * 50, 3) + sized(b"", 2) for _ in range(3)), 3)
TICKET = (
    (7200).to_bytes(4, "big") + bytes(4) + sized(b"n", 1) + sized(b"secret" * 9, 2) + sized(extension(42, bytes(4)), 2)
)


def test_messages_are_counted():
    inside = Inside()
    for kind, body in (
        (8, EXTENSIONS),
        (11, CERTIFICATES),
        (13, b"\0"),
        (20, bytes(32)),
        (4, TICKET),
        (4, TICKET),
        (24, b"\0"),
    ):
        inside.message(kind, body, client=False)
    inside.message(20, bytes(32), client=True)
    inside.message(11, CERTIFICATES, client=True)
    inside.alert(5, 0, client=False, sealed=True)
    fact = inside.fact(9)
    assert {name: fact[name] for name in ("cookie", "alpn", "early_accepted", "certificates", "certificate_asked")} == {
        "cookie": 9, "alpn": "h2", "early_accepted": True, "certificates": 3, "certificate_asked": True,
    }  # fmt: skip
    assert (fact["tickets"], fact["lifetimes"], fact["early_allowed"]) == (2, [7200, 7200], True)
    assert (fact["finished"], fact["key_updates"]) == (True, 1)
    assert fact["alerts"] == [{"at_ns": 5, "client": False, "alert": "close_notify", "sealed": True}]
    assert "secret" not in json.dumps(fact)


def test_what_was_not_seen_is_unknown():
    fact = Inside().fact(1)
    assert (fact["alpn"], fact["certificates"], fact["extensions"], fact["finished"]) == (None, None, False, False)


def test_an_empty_ticket_of_tls_12_is_none():
    inside = Inside()
    inside.message_12(4, bytes(4) + b"\0\0")
    assert inside.tickets == 0
    inside.message_12(4, bytes(4) + sized(b"ticket", 2))
    assert inside.tickets == 1


def test_a_name_that_is_no_text_is_escaped():
    inside = Inside()
    inside.message(8, sized(extension(16, sized(sized(b"\x1b[2J", 1), 2)), 2), client=False)
    assert inside.alpn == "\\x1b[2J"


@pytest.mark.fuzz
def test_any_mangled_message_is_taken():
    found = 0
    for body in mangled([EXTENSIONS, CERTIFICATES, TICKET]):
        inside = Inside()
        for kind in (4, 8, 11, 13):
            inside.message(kind, body, client=False)
            inside.message_12(kind, body)
        for code in body[:40]:
            inside.alert(1, code, client=True, sealed=True)
        fact = inside.fact(1)
        assert len(fact["alerts"]) <= 16
        assert fact["certificates"] <= 64
        found += fact["certificates"] == 3
        json.dumps(fact)
    assert found > 0
