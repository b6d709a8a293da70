# SPDX-License-Identifier: Apache-2.0
"""What boxes on the way do to packets that they should only pass on. Pure: a packet in, another one or None out."""

from __future__ import annotations

import struct
from collections.abc import Collection

__all__ = ["changed"]

_TCP = 6
_SYN, _ECE, _CWR = 0x02, 0x40, 0x80


def changed(raw: bytes, version: int, meddles: Collection[str]) -> bytes | None:
    """Return the packet as it goes on; None where it is dropped. `meddles` as in `Station.meddles`."""
    head = 40 if version == 6 else (raw[0] & 15) * 4
    protocol = raw[6] if version == 6 else raw[9]
    data = bytearray(raw)
    if "bleach-ecn" in meddles:
        _bleach(data, version)
    if protocol != _TCP or len(raw) < head + 20 or not raw[head + 13] & _SYN:
        return bytes(data)
    if "drop-data" in meddles and len(raw) > head + (raw[head + 12] >> 4) * 4:
        return None
    if raw[head + 13] & (_ECE | _CWR):
        if "drop-ecn" in meddles:
            return None
        if "strip-ecn" in meddles:
            _set_flags(data, head, raw[head + 13] & ~(_ECE | _CWR))
    return bytes(data)


def _bleach(data: bytearray, version: int) -> None:
    if version == 6:
        data[1] &= 0xCF
        return
    _put(data, 0, bytes([data[0], data[1] & 0xFC]), at_sum=10)


def _set_flags(data: bytearray, head: int, flags: int) -> None:
    _put(data, head + 12, bytes([data[head + 12], flags]), at_sum=head + 16)


def _put(data: bytearray, at: int, word: bytes, *, at_sum: int) -> None:
    """Replace a word and correct the checksum that covers it (RFC 1624)."""
    (old,), (new,) = struct.unpack_from("!H", data, at), struct.unpack("!H", word)
    (value,) = struct.unpack_from("!H", data, at_sum)
    total = (0xFFFF ^ value) + (0xFFFF ^ old) + new
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    data[at : at + 2] = word
    data[at_sum : at_sum + 2] = struct.pack("!H", 0xFFFF ^ total)
