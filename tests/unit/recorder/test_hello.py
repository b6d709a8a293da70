# SPDX-License-Identifier: Apache-2.0
"""Pieces of handshakes become facts, however they arrive."""

from __future__ import annotations

import base64
import struct
import zlib

from netdiag.decode.kept import messages, redact
from netdiag.recorder.hello import Hellos
from netdiag.recording.format import Field, FieldKind, StreamLayout
from tests.fakes import handshake as tls


class Facts:
    def __init__(self):
        self.facts = []

    def fact(self, kind, members):
        self.facts.append({"kind": kind} | members)


# --- pieces from the ring -----------------------------------------------------------------------------------------

NAMES = (("time", 8), ("cookie", 8), ("offset", 4), ("length", 2), ("direction", 1), ("reserved", 1))


def layout():
    fields, at = [], 0
    for name, size in NAMES:
        fields.append(Field(name=name, type="u", offset=at, size=size, kind=FieldKind.UINT))
        at += size
    fields.append(Field(name="data", type="u8", offset=at, size=480, kind=FieldKind.BYTES))
    return StreamLayout(
        stream=5, name="tls_hello", struct="tls_hello_event", size=at + 480, offset=8, stride=8 + at + 480,
        fields=tuple(fields),
    )  # fmt: skip


LAYOUT = layout()


def piece(data, offset=0, *, cookie=7, direction=1, at=1000):
    body = struct.pack("=QQIHBB", at, cookie, offset, len(data), direction, 0) + data.ljust(480, b"\0")
    return memoryview(bytes(8) + body)


def facts_of(*pieces):
    kept = Facts()
    hellos = Hellos(kept)  # type: ignore[arg-type]
    hellos.take(LAYOUT, pieces)
    hellos.flush(10**12, quiet_ns=0)
    return kept.facts


def text_of(fact):
    return zlib.decompress(base64.b64decode(fact["data"]))


def pieces_of(raw, start=0, **members):
    return [piece(raw[at : at + 480], start + at, **members) for at in range(0, len(raw), 480)]


def test_pieces_make_one_fact():
    hello = tls.modern(psk=True) + tls.message(0, bytes(900))
    (fact,) = facts_of(*pieces_of(tls.record(hello), at=5))
    assert {name: fact[name] for name in ("kind", "cookie", "direction", "at_ns", "whole", "session", "id")} == {
        "kind": "hello", "cookie": 7, "direction": "send", "at_ns": 5, "whole": True, "session": "f2f2f2f2", "id": 1,
    }  # fmt: skip
    assert text_of(fact) == redact(hello)


def test_what_was_said_before_is_not_repeated():
    raw = tls.record(tls.modern())
    first, second = facts_of(*pieces_of(raw), *pieces_of(raw, cookie=8))
    assert (second["same"], "data" in second) == (first["id"], False)


def test_a_missing_piece_is_told_and_nothing_behind_it_is_kept():
    raw = tls.record(tls.flight_12())
    pieces = pieces_of(raw)
    (fact,) = facts_of(pieces[0], *pieces[2:])
    assert fact["whole"] is False
    assert text_of(fact) == redact(tls.flight_12()[:475])


def test_a_handshake_behind_connect_starts_later_in_the_stream():
    (fact,) = facts_of(*pieces_of(tls.record(tls.modern()), start=120))
    assert (fact["whole"], text_of(fact)) == (True, redact(tls.modern()))


def test_a_change_cipher_spec_that_is_not_handed_on_is_no_gap():
    first, second = tls.record(tls.server_hello_13(retry=True)), tls.record(tls.server_hello_13())
    (fact,) = facts_of(piece(first), piece(second, len(first) + 6))
    assert (fact["whole"], text_of(fact)) == (True, redact(messages(first + second)))
    (fact,) = facts_of(piece(first[:-4]), piece(second, len(first) - 4 + 6))
    assert fact["whole"] is False


def test_a_hello_whose_start_is_missing_is_not_guessed_at():
    (fact,) = facts_of(*pieces_of(tls.record(tls.flight_12()))[1:])
    assert (fact["whole"], text_of(fact)) == (False, b"")


def test_a_direction_that_is_still_talking_is_waited_for():
    kept = Facts()
    hellos = Hellos(kept)  # type: ignore[arg-type]
    hellos.take(LAYOUT, pieces_of(tls.record(tls.modern()), at=1000))
    hellos.flush(100_000_000)
    assert kept.facts == []
    hellos.flush(400_000_000)
    assert len(kept.facts) == 1


def test_a_hello_without_end_is_cut():
    raw = tls.record(tls.message(11, bytes(16_000))) * 2
    (fact,) = facts_of(*pieces_of(raw))
    assert fact["whole"] is False
    assert len(text_of(fact)) <= 16_384
