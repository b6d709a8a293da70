# SPDX-License-Identifier: Apache-2.0
"""Mangled handshakes, many of them: kept without their secrets, at their own length, whatever order they come in."""

from __future__ import annotations

import base64
import itertools
import random
import zlib

import pytest

from netdiag.decode.kept import messages
from netdiag.recorder.hello import Hellos
from tests.fakes import handshake as tls
from tests.fakes.mangle import mangled, pieces

SECRETS = (tls.RANDOM, tls.SESSION, tls.SHARE, tls.TICKET, tls.BINDER, tls.CERTIFICATE)
GOOD = (
    tls.modern(psk=True, early=True),
    tls.server_hello_13(retry=True) + tls.server_hello_13(psk=True),
    tls.flight_12(),
)


class Written:
    """All that is asked of a recording's writer."""

    def __init__(self):
        self.facts = []

    def fact(self, _kind, members):
        self.facts.append(members)


@pytest.mark.fuzz
def test_any_pieces_of_any_records_end_as_facts():
    draw = random.Random(3)
    written = Written()
    hellos = Hellos(written)  # type: ignore[arg-type]
    records = [b"".join(tls.record(data[at : at + 300]) for at in range(0, len(data), 300)) for data in GOOD]
    for number, data in enumerate(mangled(records, seed=2)):
        assert len(messages(data)) <= len(data)
        for offset, piece in itertools.islice(pieces(data, draw), 64):
            hellos._add(number % 50, 1 + number % 2, number, offset, piece)
        if number % 40 == 0:
            hellos.flush(number, quiet_ns=10)
    hellos.flush(1 << 60)
    assert written.facts
    for fact in written.facts[:: max(len(written.facts) // 5000, 1)]:
        if "data" in fact:
            assert len(zlib.decompress(base64.b64decode(fact["data"]))) <= 16_384
