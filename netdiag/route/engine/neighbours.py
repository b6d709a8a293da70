# SPDX-License-Identifier: Apache-2.0
"""Which neighbours' link addresses the kernel is asking for right now: a probe that waits for one is no measurement."""

from __future__ import annotations

import socket
import struct
from typing import TypeAlias

__all__ = ["Neighbour", "parse", "unresolved"]

Neighbour: TypeAlias = tuple[int, bytes]
"""Interface number and packed address."""

_GETNEIGH, _NEWNEIGH = 30, 28
_REQUEST_DUMP = 0x1 | 0x300
_INCOMPLETE = 0x01
_HEAD = struct.Struct("=IHHII")
_NEIGHBOUR = struct.Struct("=BxxxiHBB")
_ATTRIBUTE = struct.Struct("=HH")
_DESTINATION = 1
_MOST_READS = 64


def unresolved() -> frozenset[Neighbour]:
    """Return the neighbours that are being asked for; none where the kernel does not tell."""
    found: set[Neighbour] = set()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
            netlink.settimeout(0.2)
            body = _NEIGHBOUR.pack(0, 0, 0, 0, 0)
            netlink.send(_HEAD.pack(_HEAD.size + len(body), _GETNEIGH, _REQUEST_DUMP, 1, 0) + body)
            for _ in range(_MOST_READS):
                entries, done = parse(netlink.recv(65536))
                found |= entries
                if done:
                    break
    except OSError:  # no netlink in this sandbox
        return frozenset()
    return frozenset(found)


def parse(data: bytes) -> tuple[set[Neighbour], bool]:
    """Return the incomplete entries of one netlink answer, and whether it was the last one."""
    found: set[Neighbour] = set()
    at = 0
    while at + _HEAD.size <= len(data):
        length, kind, _, _, _ = _HEAD.unpack_from(data, at)
        if length < _HEAD.size or at + length > len(data) or kind != _NEWNEIGH:
            return found, True
        entry = data[at + _HEAD.size : at + length]
        if len(entry) >= _NEIGHBOUR.size:
            _, interface, state, _, _ = _NEIGHBOUR.unpack_from(entry)
            if state & _INCOMPLETE:
                found.add((interface, _address(entry[_NEIGHBOUR.size :])))
        at += length + 3 & ~3
    return found, False


def _address(attributes: bytes) -> bytes:
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, at)
        if length < _ATTRIBUTE.size:
            break
        if kind == _DESTINATION:
            return attributes[at + _ATTRIBUTE.size : at + length]
        at += length + 3 & ~3
    return b""
