# SPDX-License-Identifier: Apache-2.0
"""A piece of plaintext: what one call of a TLS library moved, or what one packet brought, cut to a few bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Direction", "Piece"]

Direction = Literal["send", "receive"]
"""As seen from the program that was traced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One run of plaintext in one direction of a conversation."""

    at_ns: int
    """When the call returned, or the packet passed; nanoseconds on any clock that both directions share."""
    direction: Direction
    offset: int
    """Of its first byte in the direction's plaintext. One that jumps says that something in between was not seen."""
    length: int
    """Bytes moved."""
    data: bytes = field(repr=False, default=b"")
    """Its first bytes, as many as were copied: never printed."""
    tail: bytes = field(repr=False, default=b"")
    """Its last bytes where `data` does not reach them; what lies between is not known."""
