# SPDX-License-Identifier: Apache-2.0
"""The numbers that records carry, by name: the enums of the kernel programs, TCP states, Linux error numbers.

`tests/unit/tables/test_codes.py` compares them with the C header. The error numbers are those of the traced Linux, not
of the machine that reads the recording.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "ERRNO_NAMES",
    "Close",
    "Direction",
    "IoFlags",
    "ProcessKind",
    "RecordType",
    "Role",
    "Side",
    "TcpFlags",
    "TcpKind",
    "TcpState",
    "TlsBinding",
    "TlsCallKind",
    "TlsLibrary",
    "WireClass",
]


class TcpKind(IntEnum):
    """Why a tcp_event was written."""

    ESTABLISHED = 1
    FAILED = 2
    CLOSED = 3
    SNAPSHOT = 4
    LISTENER = 5


class Role(IntEnum):
    """Which side of the connection the socket is."""

    UNKNOWN = 0
    CLIENT = 1
    SERVER = 2


class Side(IntEnum):
    """Who sent the first FIN or RST."""

    NONE = 0
    LOCAL = 1
    REMOTE = 2


class Close(IntEnum):
    """How the close began."""

    NONE = 0
    FIN = 1
    RST = 2
    TIMEOUT = 3


class TcpFlags(IntFlag):
    """Facts of a socket."""

    PREEXISTING = 1
    KEEPALIVE = 2
    MPTCP = 4
    NEVER_SENT = 8
    SHARED = 16
    UNREAD_CLOSE = 32
    ADOPTED = 64


class Direction(IntEnum):
    """What a tcp_io_event is about."""

    SEND = 1
    RECEIVE = 2
    RETRANSMIT = 3


class IoFlags(IntFlag):
    """Facts of a burst."""

    CONTINUED = 1
    ORDER = 2
    NUMBERED = 4
    PEER = 8
    """Of a retransmission: the other side's, which packets of a capture show."""


class ProcessKind(IntEnum):
    """What happened to a process."""

    SEEN = 1
    FORK = 2
    EXEC = 3
    EXIT = 4
    STOPPED = 5
    CONTINUED = 6
    FROZEN = 7
    THAWED = 8
    MOVED = 9


class WireClass(IntEnum):
    """What the first bytes of a connection look like."""

    TLS = 1
    HTTP1 = 2
    HTTP2 = 3
    CONNECT = 4
    OTHER = 5


class RecordFlags(IntFlag):
    """Facts of a TLS record."""

    RESYNCED = 1


class RecordType(IntEnum):
    """Type of a TLS record, and two that are none."""

    CLASS = 0
    GAP = 1
    CHANGE_CIPHER_SPEC = 20
    ALERT = 21
    HANDSHAKE = 22
    APPLICATION_DATA = 23


class TcpState(IntEnum):
    """States of a TCP socket in Linux (include/net/tcp_states.h)."""

    ESTABLISHED = 1
    SYN_SENT = 2
    SYN_RECV = 3
    FIN_WAIT1 = 4
    FIN_WAIT2 = 5
    TIME_WAIT = 6
    CLOSE = 7
    CLOSE_WAIT = 8
    LAST_ACK = 9
    LISTEN = 10
    CLOSING = 11
    NEW_SYN_RECV = 12


class TlsCallKind(IntEnum):
    """What a call into a TLS library was for."""

    HANDSHAKE = 1
    CONTEXT = 2
    TRUST = 3
    FREE = 4


class TlsLibrary(IntEnum):
    """Whose function was called."""

    OPENSSL = 1
    BORINGSSL = 2
    GNUTLS = 3


class TlsBinding(IntEnum):
    """How it is known which socket a handshake belongs to."""

    NOT = 0
    INSIDE = 1
    AFTER = 2


ERRNO_NAMES = {
    1: "EPERM",
    2: "ENOENT",
    4: "EINTR",
    5: "EIO",
    11: "EAGAIN",
    12: "ENOMEM",
    13: "EACCES",
    22: "EINVAL",
    32: "EPIPE",
    71: "EPROTO",
    90: "EMSGSIZE",
    92: "ENOPROTOOPT",
    95: "EOPNOTSUPP",
    97: "EAFNOSUPPORT",
    98: "EADDRINUSE",
    99: "EADDRNOTAVAIL",
    100: "ENETDOWN",
    101: "ENETUNREACH",
    102: "ENETRESET",
    103: "ECONNABORTED",
    104: "ECONNRESET",
    105: "ENOBUFS",
    106: "EISCONN",
    107: "ENOTCONN",
    110: "ETIMEDOUT",
    111: "ECONNREFUSED",
    112: "EHOSTDOWN",
    113: "EHOSTUNREACH",
    114: "EALREADY",
    115: "EINPROGRESS",
}
"""Errors that a TCP socket can carry, by their number in Linux."""
