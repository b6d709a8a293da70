# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import logging

from hpack import Encoder

from netdiag.decode.http.hpack_table import HeaderDecoder

FIRST = [(":method", "GET"), (":authority", "one.test"), ("x-a", "1")]
SECOND = [(":method", "GET"), (":authority", "one.test"), ("x-a", "2")]


def raw(fields):
    return [(name.encode(), value.encode()) for name, value in fields]


def test_blocks_in_order_are_known():
    encoder, decoder = Encoder(), HeaderDecoder()
    assert decoder.decode(encoder.encode(FIRST)) == (raw(FIRST), True)
    assert decoder.decode(encoder.encode(SECOND)) == (raw(SECOND), True)


def test_after_a_block_that_was_not_seen_older_entries_are_not_known():
    encoder, decoder = Encoder(), HeaderDecoder()
    encoder.encode(FIRST)  # not seen
    fields, whole = decoder.decode(encoder.encode(SECOND))
    assert (b":authority", b"one.test") not in fields
    assert not whole
    assert (b":method", b"GET") in fields
    assert decoder.decode(encoder.encode([("x-a", "2")])) == ([], False)  # added since, under a name of before
    for _ in range(2):  # the second time by its number
        assert decoder.decode(encoder.encode([("x-b", "3")])) == ([(b"x-b", b"3")], True)


def test_forgetting_is_as_not_having_seen():
    encoder, decoder = Encoder(), HeaderDecoder()
    decoder.decode(encoder.encode(FIRST))
    decoder.forget()
    assert decoder.decode(encoder.encode(SECOND))[1] is False


def test_blocks_that_are_none_or_too_long():
    decoder = HeaderDecoder()
    assert decoder.decode(b"\xff" * 100) == ([], False)
    assert decoder.decode(b"\x00" * 40_000) == ([], False)
    assert decoder.decode(b"\x40\x7f") == ([], False)
    assert decoder.decode(Encoder().encode(FIRST)) == (raw(FIRST), True)


def test_the_library_logs_nothing(caplog):
    """It would write every field that it decodes, keys and cookies included."""
    with caplog.at_level(logging.DEBUG):
        HeaderDecoder().decode(Encoder().encode([("authorization", "Bearer SECRET")]))
    assert "SECRET" not in caplog.text
