# SPDX-License-Identifier: Apache-2.0
"""What one reply tells by itself: whether the target spoke, and how long the way back was."""

from __future__ import annotations

from netdiag.route.model import Kind, Protocol, Reply

__all__ = ["from_target", "return_hops"]

_TARGET_KINDS = (Kind.SYN_ACK, Kind.RST, Kind.ACK, Kind.ECHO_REPLY, Kind.DATA)


def from_target(reply: Reply, *, ip: str, protocol: Protocol) -> bool:
    """Tell whether a reply is the target's own: it acknowledges our probe, or it is a closed port's answer to UDP.

    An equal address is not enough: a router may translate it, and a firewall may speak in its name.
    """
    if reply.kind in _TARGET_KINDS:
        return True
    return reply.kind is Kind.PORT_UNREACHABLE and protocol is Protocol.UDP and reply.ip == ip


def return_hops(ttl: int | None) -> int | None:
    """Return how many routers a packet passed that arrived with this TTL, if it began as 64, 128 or 255."""
    if ttl is None or not 0 < ttl <= 255:
        return None
    return min(start for start in (64, 128, 255) if start >= ttl) - ttl
