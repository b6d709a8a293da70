# SPDX-License-Identifier: Apache-2.0
"""The error queue on loopback: a closed UDP port makes the kernel queue a real ICMP error."""

from __future__ import annotations

import select
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.engine import errqueue
from netdiag.route.model import Kind


def closed_port(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.bind((address, 0))
        return sock.getsockname()[1]


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_closed_port_says_who_and_when(family, address):
    port = closed_port(family, address)
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        errqueue.enable(sock)
        sock.sendto(b"probe 7", (address, port))
        select.select([sock], [], [sock], 2)
        error = errqueue.read(sock)
        assert error is not None
        assert (error.kind, error.ip, error.port) == (Kind.PORT_UNREACHABLE, address, port)
        assert error.data == b"probe 7"
        assert error.stamp_ns is not None
        assert error.ttl == 64
        assert errqueue.read(sock) is None


def extended(origin=2, kind=11, code=0, info=0, offset=0, flags=0, offender=b"\xc6\x12\0\1"):
    head = struct.pack("=IBBBxIHBx", 113, origin, kind, code, info, offset, flags)
    return head + struct.pack("=HH", socket.AF_INET, 0) + offender + bytes(8)


def parse(error, data=b"", control=()):
    return errqueue._parse(data, error, list(control), 443)


def test_a_routers_error_is_read():
    error = parse(extended(), b"quoted")
    assert error is not None
    assert (error.kind, error.ip, error.version, error.code) == (Kind.TTL_EXCEEDED, "198.18.0.1", 4, 0)
    assert (error.extension, error.stamp_ns, error.ttl, error.mtu) == (None, None, None, None)


def test_extensions_count_only_where_the_kernel_found_them_sound():
    found, bad = parse(extended(offset=100)), parse(extended(offset=100, flags=1))
    assert found is not None
    assert bad is not None
    assert (found.extension, bad.extension) == (100, None)


def test_what_fits_is_told_by_too_big_only():
    big, other = parse(extended(kind=3, code=4, info=1300)), parse(extended(info=1300))
    assert big is not None
    assert other is not None
    assert (big.mtu, other.mtu) == (1300, None)


@pytest.mark.parametrize("error", [extended(origin=1), extended(kind=0), extended()[:20], b""])
def test_other_entries_are_none_of_ours(error):
    assert parse(error) is None


@pytest.mark.fuzz
@given(st.binary(max_size=64), st.binary(max_size=64))
def test_nothing_raises(error, data):
    parse(error, data)
