# SPDX-License-Identifier: Apache-2.0
"""Handshake messages are kept without their secrets, whatever they look like."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netdiag.decode.kept import messages, redact, session_id
from netdiag.decode.tls import read
from tests.fakes import handshake as tls

SECRETS = (tls.RANDOM, tls.SESSION, tls.SHARE, tls.TICKET, tls.BINDER, tls.CERTIFICATE, tls.COOKIE)
MARKS = {secret[0] for secret in SECRETS}
REAL = (
    tls.modern(psk=True, early=True),
    tls.server_hello_13(psk=True),
    tls.server_hello_13(retry=True) + tls.server_hello_13(),
    tls.flight_12(),
    tls.client_hello([(0, tls.vector(b"\0" + tls.vector(b"localhost", 2), 2)), (35, tls.TICKET)]),
    tls.client_hello(version=0x0301),
)


@pytest.mark.parametrize("data", REAL)
def test_no_byte_of_a_secret_survives(data):
    kept = redact(data)
    assert len(kept) == len(data)
    assert not MARKS & set(kept)


@pytest.mark.parametrize("data", REAL)
def test_what_is_kept_reads_the_same(data):
    assert read(redact(data)) == read(data)


@pytest.mark.fuzz
@given(st.sampled_from(REAL), st.data())
def test_no_byte_of_a_secret_survives_a_cut_message(data, draw):
    kept = redact(data[: draw.draw(st.integers(0, len(data)))])
    assert not MARKS & set(kept)


@pytest.mark.fuzz
@given(st.sampled_from(REAL), st.data())
def test_no_part_of_a_secret_survives_a_mangled_message(data, draw):
    """Wherever a length leads: what is copied has to look like what it would be there."""
    place, value = draw.draw(st.integers(0, len(data) - 1)), draw.draw(st.integers(0, 0xFF))
    kept = redact(data[:place] + bytes([value]) + data[place + 1 :])
    assert [secret for secret in SECRETS if secret[:5] in kept] == []


@pytest.mark.parametrize("kind", [0, 10, 13, 16, 43, 45, 51])
def test_a_secret_in_place_of_a_list_is_not_kept(kind):
    """Not even where all lengths fit: its values are none of those that stand there."""
    for content in (
        tls.vector(tls.TICKET, 2), tls.vector(tls.TICKET, 1), tls.vector(b"\0" + tls.vector(tls.TICKET, 2), 2),
        tls.vector(tls.vector(tls.TICKET, 1), 2), tls.vector(tls.vector(tls.TICKET, 2), 2),
    ):  # fmt: skip
        assert not MARKS & set(redact(tls.client_hello([(kind, content)])))


def test_cipher_suites_that_nobody_knows_are_left_out():
    kept = read(redact(tls.client_hello(suites=(0x1301, 0xF1F1, 0x0A0A, 0xC030))))
    assert kept.client_hellos[0].ciphers == ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    assert kept.client_hellos[0].grease


def test_a_name_of_a_protocol_that_is_none_is_left_out():
    names = tls.vector(b"h2", 1) + tls.vector(b"\xf4\xf4\xf4", 1) + tls.vector(b"acme-tls/1", 1)
    kept = redact(tls.client_hello([(16, tls.vector(names, 2))]))
    assert read(kept).client_hellos[0].alpn == ("h2", "acme-tls/1")
    assert not MARKS & set(kept)


@pytest.mark.parametrize("kind", [0, 10, 16, 28, 41, 43, 45])
def test_an_extension_that_is_no_list_is_not_kept(kind):
    assert not MARKS & set(redact(tls.client_hello([(kind, tls.TICKET)])))
    assert not MARKS & set(redact(tls.server_hello([(kind, tls.TICKET)])))


@pytest.mark.fuzz
@given(st.binary(max_size=400))
@example(b"\x01\x00\x00\x23" + bytes(40))
@example(b"\x02" * 60)
def test_any_bytes_are_taken(data):
    assert len(redact(data)) == len(data)
    assert len(messages(data)) <= len(data)
    assert len(session_id(data)) <= 4


def test_records_are_put_together_and_what_is_no_record_ends_them():
    hello = tls.modern()
    raw = tls.record(hello[:100]) + tls.record(b"\x01", 20) + tls.record(hello[100:])
    assert messages(raw + tls.record(b"secret", 23)) == hello
    assert messages(b"CONNECT api") == b""
    assert messages(raw[:60]) == hello[:55]


def test_four_bytes_of_the_session_id_are_told_apart():
    assert session_id(tls.modern()) == tls.SESSION[:4]
    assert session_id(tls.client_hello(session=b"")) == b""
    assert session_id(tls.certificates()) == b""
