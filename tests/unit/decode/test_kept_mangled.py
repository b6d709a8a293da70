# SPDX-License-Identifier: Apache-2.0
"""Mangled handshakes, many of them: kept without their secrets, at their own length."""

from __future__ import annotations

import pytest

from netdiag.decode.kept import redact, session_id
from netdiag.decode.tls import read
from tests.fakes import handshake as tls
from tests.fakes.mangle import mangled

SECRETS = (tls.RANDOM, tls.SESSION, tls.SHARE, tls.TICKET, tls.BINDER, tls.CERTIFICATE, tls.COOKIE)
GOOD = (
    tls.modern(psk=True, early=True),
    tls.server_hello_13(retry=True) + tls.server_hello_13(psk=True),
    tls.flight_12(),
)
MOST = 4
"""Bytes of a secret that may be kept in a row: of its place a wrong length makes a number and part of the next."""


@pytest.mark.fuzz
def test_no_secret_of_any_mangled_message_is_kept():
    for data in mangled(GOOD):
        kept = redact(data)
        assert len(kept) == len(data)
        assert len(session_id(data)) <= 4
        assert [secret for secret in SECRETS if secret[: MOST + 1] in kept] == [], data.hex()
        kinds = read(data).kinds
        assert read(kept).kinds[: len(kinds)] == kinds  # of what follows a strange message only zeros are left
