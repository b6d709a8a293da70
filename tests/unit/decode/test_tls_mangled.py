# SPDX-License-Identifier: Apache-2.0
"""Mangled handshake messages, many of them: read without harm, within bounds, and told as cut where they are."""

from __future__ import annotations

import pytest

from netdiag.decode.tls import read
from tests.fakes import handshake as tls
from tests.fakes.mangle import mangled

GOOD = (
    tls.modern(psk=True, early=True),
    tls.modern(groups=(4588, 29, 23)),
    tls.server_hello_13(retry=True) + tls.server_hello_13(psk=True),
    tls.flight_12(count=3),
    tls.client_hello(version=0x0301),
)


@pytest.mark.fuzz
def test_any_mangled_messages_are_read():
    cut = whole = 0
    for data in mangled(GOOD):
        found = read(data)
        assert found.cut_at is None or 0 <= found.cut_at <= len(data)
        assert len(found.kinds) <= 64
        for hello in found.client_hellos:
            lists = (hello.versions, hello.ciphers, hello.alpn, hello.groups, hello.key_shares, hello.psk_modes)
            assert max(map(len, lists)) <= 512
            assert hello.sni is None or (len(hello.sni) <= 1020 and hello.sni.isascii() and hello.sni.isprintable())
            assert all(name.isascii() and name.isprintable() for name in hello.alpn)
        torn = [each.cut for each in found.client_hellos] + [each.cut for each in found.server_hellos]
        cut += found.cut_at is not None or any(torn)
        whole += found.cut_at is None
    assert cut > 0
    assert whole > 0
