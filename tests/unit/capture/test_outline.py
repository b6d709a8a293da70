# SPDX-License-Identifier: Apache-2.0
"""Hellos with one outline are equal once they are cut, whatever else differs; so a cut can be used again."""

from __future__ import annotations

import random

import pytest

from netdiag.capture.outline import outline
from netdiag.decode.kept import redact
from tests.fakes import handshake as tls
from tests.fakes.mangle import COUNT, mangled

GOOD = [
    tls.modern(), tls.modern(psk=True), tls.server_hello_13(), tls.server_hello_13(retry=True), tls.flight_12(),
    tls.modern() + tls.modern(psk=True),
]  # fmt: skip


@pytest.mark.parametrize("data", GOOD)
def test_usual_hellos_have_one(data):
    found = outline(data)
    assert found is not None
    assert len(found) <= len(data)


def test_another_random_and_session_id_have_the_same_outline():
    hello = bytearray(tls.modern())
    before = outline(bytes(hello))
    hello[6:38] = random.Random(1).randbytes(32)
    hello[39 : 39 + hello[38]] = random.Random(2).randbytes(hello[38])
    assert outline(bytes(hello)) == before


@pytest.mark.fuzz
def test_equal_outlines_are_equal_cuts():
    """Each mangled hello beside its twin, whose bytes that the outline does not hold are others."""
    seen: dict[bytes, bytes] = {}
    draw = random.Random(4)
    for data in mangled(GOOD, COUNT, seed=9):
        for text in (data, twin(data, draw)):
            key = outline(text)
            if key is not None:
                assert seen.setdefault(key, redact(text)) == redact(text)
        if len(seen) > 4000:
            seen.clear()


def twin(data, draw):
    """Return the same with some bytes changed."""
    other = bytearray(data)
    for _ in range(draw.choice((1, 4, 40))):
        if other:
            other[draw.randrange(len(other))] = draw.randrange(256)
    return bytes(other)
