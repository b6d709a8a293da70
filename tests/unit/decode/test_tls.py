# SPDX-License-Identifier: Apache-2.0
"""Handshake messages are read for what they say; foreign bytes never hurt."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netdiag.decode.tls import Messages, read
from tests.fakes import handshake as tls

REAL = (
    tls.modern(psk=True, early=True),
    tls.server_hello_13(retry=True) + tls.server_hello_13(psk=True),
    tls.flight_12(),
    tls.client_hello(version=0x0301),
)


def hello_of(pairs=(), **members):
    (hello,) = read(tls.client_hello(pairs, **members)).client_hellos
    return hello


def final_of(data):
    final = read(data).final
    assert final is not None
    return final


def test_a_modern_client():
    data = tls.modern(psk=True, early=True)
    (hello,) = read(data).client_hellos
    assert (hello.size, hello.cut, hello.offers_13) == (len(data), False, True)
    assert hello.versions == ("TLSv1.3", "TLSv1.2")
    assert hello.legacy_version == "TLSv1.2"
    assert hello.ciphers[0] == "TLS_AES_256_GCM_SHA384"
    assert (hello.sni, hello.alpn) == ("api.example.test", ("h2", "http/1.1"))
    assert (hello.groups, hello.key_shares) == (("X25519", "P-256"), ("X25519",))
    assert (hello.session_id_bytes, hello.ticket, hello.psk, hello.early_data) == (32, True, True, True)
    assert hello.psk_modes == (1,)


def test_an_old_client_without_extensions():
    hello = hello_of(version=0x0301, session=b"", suites=[0x002F, 0xFEFE])
    assert (hello.versions, hello.ciphers) == (("TLSv1",), ("TLS_RSA_WITH_AES_128_CBC_SHA", "0xfefe"))
    assert (hello.session_id_bytes, hello.ticket, hello.sni, hello.alpn) == (0, None, None, ())
    assert (hello.offers_13, hello.cut) == (False, False)


def test_an_empty_ticket_extension_asks_for_one():
    assert hello_of([(35, b"")]).ticket is False


def test_placeholders_are_left_out():
    shares = tls.vector(tls.numbers(0x2A2A) + tls.vector(b"\0", 2) + tls.numbers(4588) + tls.vector(tls.SHARE, 2), 2)
    hello = hello_of(
        [
            (0x0A0A, b""),
            (10, tls.vector(tls.numbers(0x3A3A, 4588, 29), 2)),
            (16, tls.vector(tls.vector(b"\x4a\x4a", 1) + tls.vector(b"h2", 1), 2)),
            (43, tls.vector(tls.numbers(0x5A5A, 0x0304), 1)),
            (51, shares),
        ],
        suites=[0x1A1A, 0x1301],
    )
    assert hello.grease
    assert (hello.ciphers, hello.versions) == (("TLS_AES_128_GCM_SHA256",), ("TLSv1.3",))
    assert (hello.groups, hello.key_shares, hello.alpn) == (("X25519MLKEM768", "X25519"), ("X25519MLKEM768",), ("h2",))
    assert not hello_of([(10, tls.vector(tls.numbers(29), 2))]).grease


def test_a_name_with_strange_bytes_cannot_reach_a_terminal():
    name = tls.vector(b"\0" + tls.vector(b"a\x1b[31m\xff", 2), 2)
    assert hello_of([(0, name)]).sni == "a\\x1b[31m\\xff"


def test_what_a_server_of_tls_13_chose():
    final = final_of(tls.server_hello_13(psk=True))
    assert (final.version, final.cipher, final.group) == ("TLSv1.3", "TLS_AES_256_GCM_SHA384", "X25519")
    assert (final.is_13, final.psk, final.retry, final.session_id_bytes, final.cut) == (True, True, False, 32, False)


def test_a_retry_decides_nothing():
    messages = read(tls.server_hello_13(retry=True, group=24) + tls.server_hello_13(group=24))
    retry, final = messages.server_hellos
    assert (retry.retry, retry.group, final.retry, final.group) == (True, "P-384", False, "P-384")
    assert messages.final is final
    assert read(tls.server_hello_13(retry=True)).final is None


def test_what_a_server_of_tls_12_chose():
    messages = read(tls.flight_12(count=3))
    final = messages.final
    assert final is not None
    assert (final.version, final.cipher, final.alpn, final.ticket) == (
        "TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "http/1.1", True,
    )  # fmt: skip
    assert (final.is_13, final.group, messages.curve) == (False, None, "X25519")
    assert (messages.certificates, messages.certificate_bytes) == (3, len(tls.certificates(3)))
    assert (messages.ticket_lifetimes, messages.kinds, messages.cut_at) == ((300,), (2, 11, 12, 14, 4), None)


def test_drafts_of_tls_13():
    # up to draft 21: no session id, no compression, the version in its old place
    body = tls.numbers(0x7F12) + tls.RANDOM + tls.numbers(0x1301)
    final = final_of(tls.message(2, body + tls.extensions([(40, tls.numbers(29) + tls.vector(tls.SHARE, 2))])))
    assert (final.version, final.cipher, final.group, final.is_13) == (
        "TLSv1.3-draft18", "TLS_AES_128_GCM_SHA256", "X25519", True,
    )  # fmt: skip
    (retry,) = read(tls.message(6, tls.numbers(0x7F12) + tls.extensions([(40, tls.numbers(23))]))).server_hellos
    assert (retry.retry, retry.group) == (True, "P-256")
    assert final_of(tls.server_hello([(43, tls.numbers(0x7F1C))])).version == "TLSv1.3-draft28"


def test_a_server_with_finite_field_keys_names_no_curve():
    messages = read(tls.server_hello() + tls.message(12, tls.vector(bytes(256), 2)))
    assert (messages.curve, messages.cut_at) == (None, None)


@pytest.mark.parametrize("length", range(4, len(tls.modern()), 7))
def test_a_cut_hello_says_so(length):
    messages = read(tls.modern()[:length])
    assert messages.cut_at is not None
    assert all(hello.cut for hello in messages.client_hellos)


def test_a_chain_that_is_cut_has_no_count():
    data = tls.server_hello() + tls.certificates(3)
    assert (read(data[:-900]).certificates, read(data[:-900]).cut_at is None) == (None, False)
    assert (read(data[:-200]).certificates, read(data[:-200]).cut_at is None) == (3, False)


def test_what_is_no_handshake_is_left_alone():
    assert read(b"") == Messages()
    assert read(b"GET / HTTP/1.1\r\n") == Messages(cut_at=0)
    assert read(tls.server_hello() + b"\x99\0\0\0").cut_at == len(tls.server_hello())


def test_endless_messages_are_bounded():
    messages = read(tls.message(14, b"") * 1000)
    assert (len(messages.kinds), messages.cut_at) == (64, 64 * 4)


def test_lists_that_contradict_their_lengths_are_cut():
    assert hello_of([(10, b"\xff\xff\x00\x1d")]).cut
    assert hello_of([(16, tls.vector(b"\x09h2", 2))]).cut
    good = tls.client_hello([(16, tls.vector(tls.vector(b"h2", 1), 2))])
    at = len(good) - 12
    wrong = good[:at] + b"\x00\xff" + good[at + 2 :]
    assert read(wrong).client_hellos[0].cut


@pytest.mark.fuzz
@given(st.binary(max_size=300))
@example(b"\x01\x00\x00\x26\x03\x03" + bytes(36))
def test_any_bytes_are_read(data):
    messages = read(data)
    assert messages.cut_at is None or 0 <= messages.cut_at <= len(data)


@pytest.mark.fuzz
@given(st.sampled_from(REAL), st.data())
def test_mangled_messages_are_read(data, draw):
    mangled = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        mangled[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    end = draw.draw(st.integers(0, len(data)))
    messages = read(bytes(mangled[:end]))
    assert messages.cut_at is None or 0 <= messages.cut_at <= end
    assert len(messages.kinds) <= 64
