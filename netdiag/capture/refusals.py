# SPDX-License-Identifier: Apache-2.0
"""ICMP's word that a SYN did not get through: destination unreachable, prohibited, out of hops. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from errno import EACCES, ECONNREFUSED, EHOSTUNREACH, ENETUNREACH

__all__ = ["ICMP4", "ICMP6", "Refusal", "refusal"]

ICMP4, ICMP6 = 1, 58
_TCP = 6
_HEADER, _PORTS_AND_NUMBER = 8, 8
_SHORTEST_IP4, _IP6 = 20, 40
_TOO_BIG = 4
_ERRORS: Mapping[tuple[int, int], Mapping[int, int]] = {
    (ICMP4, 3): {0: ENETUNREACH, 3: ECONNREFUSED, 6: ENETUNREACH, 9: ENETUNREACH, 11: ENETUNREACH},
    (ICMP4, 11): {},
    (ICMP6, 1): {0: ENETUNREACH, 1: EACCES, 4: ECONNREFUSED, 5: EACCES, 6: EACCES},
    (ICMP6, 3): {},
}
"""Protocol and type (RFC 792, RFC 4443) → code → the error that Linux gives the program; else EHOSTUNREACH."""
_MAPPED = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A message of ICMP that quotes a TCP segment."""

    at_ns: int
    source: tuple[bytes, int]
    """Of the segment: address of 16 bytes, port."""
    target: tuple[bytes, int]
    seq: int
    error: int
    """What the program gets, a number of errno."""


def refusal(raw: bytes, protocol: int, at: int, end: int, at_ns: int) -> Refusal | None:
    """Return what the message of ICMP or ICMPv6 says that begins at `at`; None where it refuses no TCP segment."""
    if at + _HEADER + _SHORTEST_IP4 > end:
        return None
    kind, code = raw[at], raw[at + 1]
    errors = _ERRORS.get((protocol, kind))
    if errors is None or (protocol == ICMP4 and kind != 11 and code == _TOO_BIG):
        return None
    ip = at + _HEADER
    if raw[ip] >> 4 == 4 and raw[ip + 9] == _TCP and not (raw[ip + 6] & 0x1F or raw[ip + 7]):
        inner = ip + (raw[ip] & 15) * 4
        source, target = _MAPPED + raw[ip + 12 : ip + 16], _MAPPED + raw[ip + 16 : ip + 20]
    elif raw[ip] >> 4 == 6 and ip + _IP6 <= end and raw[ip + 6] == _TCP:
        inner = ip + _IP6
        source, target = raw[ip + 8 : ip + 24], raw[ip + 24 : ip + 40]
    else:
        return None
    if inner < ip + _SHORTEST_IP4 or inner + _PORTS_AND_NUMBER > end:
        return None
    ports = int.from_bytes(raw[inner : inner + 2], "big"), int.from_bytes(raw[inner + 2 : inner + 4], "big")
    return Refusal(
        at_ns=at_ns,
        source=(source, ports[0]),
        target=(target, ports[1]),
        seq=int.from_bytes(raw[inner + 4 : inner + 8], "big"),
        error=errors.get(code, EHOSTUNREACH),
    )
