# SPDX-License-Identifier: Apache-2.0
"""Suites have their parts, keys are those of RFC 8448; what does not fit opens to nothing."""

from __future__ import annotations

import random

import pytest

from netdiag.capture.ciphers import Suite, candidates, expand_label, open_12, open_13, suite_of
from netdiag.decode.tls_names import CIPHERS

SECRET = bytes.fromhex("b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21")
"""Of the client's handshake in RFC 8448 section 3."""


def test_keys_are_those_of_the_standard():
    assert expand_label(SECRET, "key", 16, "sha256").hex() == "dbfaa693d1762c5b666af5d950258d01"
    assert expand_label(SECRET, "iv", 12, "sha256").hex() == "5bd3c71b836e0b76bb73265f"
    assert len(expand_label(SECRET, "long", 100, "sha256")) == 100


@pytest.mark.parametrize(
    ("number", "suite"),
    [
        (0x1301, Suite(bulk="gcm", key_bytes=16, hash="sha256")),
        (0x1302, Suite(bulk="gcm", key_bytes=32, hash="sha384")),
        (0x1305, Suite(bulk="ccm8", key_bytes=16, hash="sha256")),
        (0xC028, Suite(bulk="cbc", key_bytes=32, hash="sha384", mac="sha384")),
        (0x002F, Suite(bulk="cbc", key_bytes=16, hash="sha256", mac="sha1")),
        (0xCCA8, Suite(bulk="chacha", key_bytes=32, hash="sha256")),
        (0x0005, None),
        (0x000A, None),
        (0x0041, None),
        (0xABCD, None),
    ],
)
def test_suites_have_their_parts(number, suite):
    assert suite_of(number) == suite


def test_secrets_tell_by_their_length_which_suites_they_may_belong_to():
    assert [suite.bulk for suite in candidates(bytes(32))] == ["gcm", "chacha"]
    assert [suite.key_bytes for suite in candidates(bytes(48))] == [32]


@pytest.mark.fuzz
def test_anything_else_opens_to_nothing():
    draw = random.Random(4)
    for number in CIPHERS:
        suite = suite_of(number)
        if suite is None:
            continue
        openers = [open_13(suite, SECRET)] if number >> 8 == 0x13 else []
        for last in (False, True):
            openers += open_12(suite, bytes(48), (b"c" * 32, b"s" * 32), 0x0303, mac_last=last and suite.bulk == "cbc")
        for opener in openers:
            for size in (0, 1, 7, 8, 15, 16, 17, 24, 31, 32, 48, 64, 100, 1000):
                assert opener.open(0, 23, 0x0303, draw.randbytes(size)) is None
