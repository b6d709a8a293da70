# SPDX-License-Identifier: Apache-2.0
"""The interface to those who parse: what passes through it never shows what it carries."""

from __future__ import annotations

from netdiag.capture.sink import Chunk, Datagram, Harvest


def test_bytes_do_not_show():
    secret = memoryview(b"a secret that nobody may see")
    chunk = Chunk(at_ns=1, send=True, offset=0, length=len(secret), data=secret)
    datagram = Datagram(at_ns=1, source=(b"", 1), destination=(b"", 2), length=len(secret), data=secret)
    assert "secret" not in repr(chunk)
    assert "secret" not in repr(datagram)


def test_an_empty_harvest_is_nothing():
    assert (dict(Harvest().records), dict(Harvest().layouts), tuple(Harvest().facts)) == ({}, {}, ())
