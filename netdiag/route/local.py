# SPDX-License-Identifier: Apache-2.0
"""What this machine knows of its own addresses, without a packet."""

from __future__ import annotations

import array
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable

__all__ = ["device_towards", "driver_of", "public_address", "source_towards"]

_HEAD, _ROUTE, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBBBBBI"), struct.Struct("=HH")
"""nlmsghdr, rtmsg, rtattr."""
_GETROUTE, _NEWROUTE, _REQUEST, _DESTINATION, _OUTGOING = 26, 24, 1, 1, 4
_ETHTOOL, _GET_DRIVER = 0x8946, 3
_SOMEWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}


def source_towards(ip: str) -> str | None:
    """Return the address that the system would send from; None without a way. A connected UDP socket sends nothing."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((ip, 9))
            return str(sock.getsockname()[0])
    except OSError:
        return None


def public_address(families: Iterable[int]) -> str | None:
    """Return an address of this machine that is valid on the internet; None behind a translator."""
    for version in families:
        source = source_towards(_SOMEWHERE[version])
        if source is not None and ipaddress.ip_address(source).is_global:
            return source
    return None


def device_towards(ip: str) -> tuple[str, str | None] | None:
    """Return the device that the system would send over and its driver's name; None without a way. Sends nothing.

    The kernel is asked for its route, so that rules by source or mark, as VPN programs set them, are followed.
    """
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    packed = socket.inet_pton(family, ip.partition("%")[0])
    body = _ROUTE.pack(family, 8 * len(packed), 0, 0, 0, 0, 0, 0, 0)
    body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(packed), _DESTINATION) + packed
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
            netlink.settimeout(0.2)
            netlink.send(_HEAD.pack(_HEAD.size + len(body), _GETROUTE, _REQUEST, 1, 0) + body)
            number = _outgoing(netlink.recv(65536))
        name = socket.if_indextoname(number) if number is not None else None
    except OSError:  # no netlink in this sandbox, or the device is gone
        return None
    return None if name is None else (name, driver_of(name))


def _outgoing(data: bytes) -> int | None:
    """Return the number of the device that a route leaves by; None for an error."""
    if len(data) < _HEAD.size + _ROUTE.size or _HEAD.unpack_from(data)[1] != _NEWROUTE:
        return None
    at = _HEAD.size + _ROUTE.size
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return None
        if kind == _OUTGOING and at + _ATTRIBUTE.size + 4 <= len(data):
            return int(struct.unpack_from("=I", data, at + _ATTRIBUTE.size)[0])
        at += length + 3 & ~3
    return None


def driver_of(name: str) -> str | None:
    """Return what the kernel calls a device's driver; None where it has none (loopback)."""
    answer = array.array("B", struct.pack("=I192x", _GET_DRIVER))
    request = struct.pack("16sP8x", name.encode(), answer.buffer_info()[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            fcntl.ioctl(sock, _ETHTOOL, request)
    except OSError:
        return None
    return bytes(answer[4:36]).split(b"\0")[0].decode("ascii", "replace") or None
