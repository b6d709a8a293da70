# SPDX-License-Identifier: Apache-2.0
"""How certificates lead from one to the next; numbers instead of names, and nothing of what is no certificate."""

from __future__ import annotations

import pytest

from netdiag.decode.chain import Names, certificates
from tests.fakes import handshake as tls
from tests.fakes.mangle import mangled

CA_ISSUERS = bytes.fromhex("06082b06010505073002")


def element(tag, content):
    """Return a DER element with a definite length."""
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    width = (len(content).bit_length() + 7) // 8
    return bytes([tag, 0x80 | width]) + len(content).to_bytes(width, "big") + content


def name(text):
    return element(0x30, element(0x31, element(0x30, b"\x06\x03\x55\x04\x03" + element(0x0C, text.encode()))))


def certificate(subject, issuer, *, old=False, extensions=b""):
    """Return as much of a certificate as its names need: RFC 5280 section 4.1."""
    algorithm = element(0x30, b"\x06\x03\x2b\x65\x70")
    signed = b"" if old else element(0xA0, element(0x02, b"\x02"))
    signed += element(0x02, b"\x01\x02") + algorithm + name(issuer)
    signed += element(0x30, element(0x17, b"260101000000Z") * 2) + name(subject)
    signed += element(0x30, algorithm + element(0x03, bytes(33))) + extensions
    return element(0x30, element(0x30, signed) + algorithm + element(0x03, bytes(65)))


def chain(*ders):
    return tls.message(11, tls.vector(b"".join(tls.vector(der, 3) for der in ders), 3))


LEAF, MIDDLE, ROOT = certificate("a", "m"), certificate("m", "r", old=True), certificate("r", "r")
FETCHABLE = certificate("a", "m", extensions=element(0xA3, element(0x30, CA_ISSUERS + b"http")))


def test_a_chain_leads_from_issuer_to_subject():
    found = Names().chain(tls.server_hello() + chain(LEAF, MIDDLE, ROOT) + tls.key_exchange())
    assert found == [[len(LEAF), 1, 2, False], [len(MIDDLE), 2, 3, False], [len(ROOT), 3, 3, False]]


def test_equal_names_have_equal_numbers_in_a_whole_recording():
    names = Names()
    names.chain(chain(ROOT))
    assert names.chain(chain(LEAF, MIDDLE)) == [[len(LEAF), 2, 3, False], [len(MIDDLE), 3, 1, False]]


def test_a_certificate_that_tells_where_its_issuer_s_is():
    assert Names().chain(chain(FETCHABLE)) == [[len(FETCHABLE), 1, 2, True]]


def test_nothing_that_a_certificate_says_is_kept():
    text = repr(Names().chain(chain(certificate("secret.test", "secret-ca"))))
    assert "secret" not in text


def test_a_message_without_chain_has_none():
    assert Names().chain(tls.server_hello_13()) is None
    assert Names().chain(b"") is None
    assert Names().chain(chain()) == []  # a client that has none


@pytest.mark.parametrize("cut", [1, 4, 40, 200])
def test_a_chain_that_is_not_all_there_is_none(cut):
    assert certificates(chain(LEAF, MIDDLE)[:-cut]) is None


@pytest.mark.parametrize(
    "der", [b"", b"\x30", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", bytes(40), element(0x30, element(0x30, bytes(60)))]
)
def test_what_is_no_certificate_makes_no_chain(der):
    assert certificates(chain(LEAF, der)) is None


def test_there_is_an_end_to_chains_and_to_names():
    assert certificates(chain(*[LEAF] * 11)) is None
    names = Names()
    for number in range(2100):
        names.chain(chain(certificate(f"s{number}", f"i{number}")))
    assert names.chain(chain(certificate("new", "i1"))) == [[len(certificate("new", "i1")), None, 4, False]]


@pytest.mark.fuzz
def test_any_mangled_chain_is_taken():
    names, whole = Names(), 0
    for data in mangled((chain(LEAF, MIDDLE, ROOT), tls.server_hello() + chain(FETCHABLE), chain(LEAF))):
        found = names.chain(data)
        whole += found is not None
        for size, subject, issuer, fetchable in found or ():
            assert size is not None
            assert 0 < size <= len(data)
            assert subject is None or 0 < subject <= 4096
            assert issuer is None or 0 < issuer <= 4096
            assert fetchable in (True, False)
    assert whole
