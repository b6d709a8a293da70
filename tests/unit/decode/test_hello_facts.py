# SPDX-License-Identifier: Apache-2.0
"""The fact of a hello: each different one is written once, and nothing but what may be kept."""

from __future__ import annotations

import base64
import ssl
import zlib

from netdiag.decode.hello_facts import HelloFacts
from netdiag.decode.kept import messages, redact
from tests.fakes.tls_session import talk


def hello():
    return messages(talk([], version=ssl.TLSVersion.TLSv1_3).flights[0][1])


def fact(facts, said, cookie=1, direction="send", at_ns=5, *, whole=True):
    return facts.fact(said, cookie=cookie, direction=direction, at_ns=at_ns, whole=whole)


def test_a_hello_is_kept_cut_and_told_once():
    facts, said = HelloFacts(), hello()
    first, kept = fact(facts, said)
    assert kept == redact(said) != said
    assert zlib.decompress(base64.b64decode(first["data"])) == kept
    assert (first["cookie"], first["direction"], first["at_ns"], first["whole"]) == (1, "send", 5, True)
    again, _ = fact(facts, said, cookie=2, whole=False)
    assert again["same"] == first["id"]
    assert "data" not in again
    assert again["whole"] is False


def test_what_differs_gets_another_number():
    facts = HelloFacts()
    first, _ = fact(facts, hello())
    other, _ = fact(facts, b"")
    assert other["id"] == first["id"] + 1
    assert other["session"] is None


def test_a_cut_that_remembers_is_used():
    facts = HelloFacts(lambda _: b"kept")
    assert fact(facts, hello())[1] == b"kept"
