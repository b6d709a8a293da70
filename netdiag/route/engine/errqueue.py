# SPDX-License-Identifier: Apache-2.0
"""The error queue of a socket: who sent the ICMP error that the kernel matched to it, when, and what it quotes."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
from dataclasses import dataclass

from netdiag.route.engine.channel import SO_TIMESTAMPNS, hop_limit, kernel_stamp
from netdiag.route.engine.parse import error_kind
from netdiag.route.model import Kind

__all__ = ["QueuedError", "enable", "read"]

IP_RECVERR, IPV6_RECVERR, IP_RECVTTL = 11, 25, 12
IP_RECVERR_RFC4884, IPV6_RECVERR_RFC4884 = 26, 31
_ORIGIN_ICMP, _ORIGIN_ICMP6 = 2, 3
_INVALID = 1
_MOST_BYTES = 2048
_HEAD = struct.Struct("=IBBBxIHB")
"""struct sock_extended_err: errno, origin, type, code, info, then offset and flags of RFC 4884 extensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedError:
    """One error that the kernel found to be about this socket."""

    version: int
    kind: Kind
    code: int
    ip: str
    """Who sent it."""
    port: int
    """Destination port of the quoted packet."""
    mtu: int | None
    ttl: int | None
    """Of the error as it arrived."""
    stamp_ns: int | None
    data: bytes
    """What is quoted of our packet; where it begins depends on the socket's protocol."""
    extension: int | None
    """Where in `data` the extensions begin (UDP only)."""


def enable(sock: socket.socket) -> None:
    """Have a socket queue errors, with time stamps, TTL and, where the kernel can, extensions."""
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        extensions = (socket.IPPROTO_IP, IP_RECVERR_RFC4884)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        extensions = (socket.IPPROTO_IPV6, IPV6_RECVERR_RFC4884)
    if sock.type == socket.SOCK_DGRAM:
        with contextlib.suppress(OSError):  # kernels before 5.9
            sock.setsockopt(*extensions, 1)


def read(sock: socket.socket) -> QueuedError | None:
    """Return the next queued ICMP error, others skipped; None when the queue is empty."""
    while True:
        try:
            data, control, _, name = sock.recvmsg(_MOST_BYTES, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except OSError:  # empty
            return None
        wanted = {(socket.IPPROTO_IP, IP_RECVERR), (socket.IPPROTO_IPV6, IPV6_RECVERR)}
        for level, number, error in control:
            if (level, number) in wanted:
                found = _parse(data, error, control, int(name[1]) if name else 0)
                if found is not None:
                    return found


def _parse(data: bytes, error: bytes, control: list[tuple[int, int, bytes]], port: int) -> QueuedError | None:
    if len(error) < 32:
        return None
    _, origin, kind_number, code, info, offset, flags = _HEAD.unpack_from(error)
    if origin not in (_ORIGIN_ICMP, _ORIGIN_ICMP6):
        return None
    version = 4 if origin == _ORIGIN_ICMP else 6
    offender = error[20:24] if version == 4 else error[24:40]  # sockaddr_in, sockaddr_in6 behind 16 bytes
    kind = error_kind(version, kind_number, code)
    if kind is None or len(offender) != (4 if version == 4 else 16):
        return None
    return QueuedError(
        version=version,
        kind=kind,
        code=code,
        ip=str(ipaddress.ip_address(offender)),
        port=port,
        mtu=info or None if kind is Kind.TOO_BIG else None,
        ttl=hop_limit(control),
        stamp_ns=kernel_stamp(control),
        data=data,
        extension=offset if offset and not flags & _INVALID else None,
    )
