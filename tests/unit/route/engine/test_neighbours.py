# SPDX-License-Identifier: Apache-2.0
"""Answers of the kernel about neighbours, built by hand."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.engine import neighbours

INCOMPLETE, REACHABLE = 0x01, 0x02


def entry(state, address=b"\xc6\x12\0\1", *, interface=2):
    body = struct.pack("=BxxxiHBB", 2, interface, state, 0, 1) + struct.pack("=HH", 4 + len(address), 1) + address
    return struct.pack("=IHHII", 16 + len(body), 28, 2, 1, 0) + body


def test_only_those_that_are_being_asked_for():
    data = entry(REACHABLE) + entry(INCOMPLETE, b"\xc6\x12\0\5")
    assert neighbours.parse(data) == ({(2, b"\xc6\x12\0\5")}, False)


def test_the_end_of_the_list():
    done = struct.pack("=IHHII", 20, 3, 2, 1, 0) + bytes(4)
    assert neighbours.parse(entry(INCOMPLETE) + done) == ({(2, b"\xc6\x12\0\1")}, True)


@pytest.mark.fuzz
@given(st.binary(max_size=80), st.integers(0, 80))
def test_nothing_raises(data, cut):
    neighbours.parse(data)
    neighbours.parse((entry(INCOMPLETE) + data)[:cut])


def test_the_real_table_can_be_read():
    assert isinstance(neighbours.unresolved(), frozenset)
