# SPDX-License-Identifier: Apache-2.0
"""The shipped table of address blocks and their AS, mapped into memory: a look-up takes microseconds, a start none.

    file    = NDASN and a zero byte, u16 version, u32 length, header JSON of that length (padded to a multiple of 8)
    arrays  u64 v6 starts (upper halves of addresses), u32 v4 starts, u32 v4 places, u32 v6 places,
            u32 AS numbers, u32 ends of names (one more), names in UTF-8

All numbers are little endian. A block reaches to the next start; place 0 means that no AS is known.
`scripts/build-asn` writes it.
"""

from __future__ import annotations

import ipaddress
import json
import mmap
import struct
import sys
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable, Unsupported
from netdiag.route.knowledge import Source

__all__ = ["Origin", "Origins", "load", "shipped"]

_MAGIC = b"NDASN\0"
_HEAD = struct.Struct("<6sHI")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Which network announces an address."""

    asn: int
    name: str | None


class Origins:
    """The table."""

    def __init__(self, view: memoryview, header: dict[str, Any], at: int) -> None:
        self.source = Source(
            source=f"AS table ({header['source']})",
            date=header["date"],
            licence=header["licence"],
            attribution=header["attribution"],
        )
        counts = {"v4": int(header["v4"]), "v6": int(header["v6"]), "names": int(header["names"])}
        parts: list[memoryview[int]] = []
        for width, size in ((8, "v6"), (4, "v4"), (4, "v4"), (4, "v6"), (4, "names")):
            end = at + counts[size] * width
            part = view[at:end]
            parts.append(part.cast("Q") if width == 8 else part.cast("I"))
            at = end
        self._v6, self._v4, self._v4_places, self._v6_places, self._numbers = parts
        end = at + 4 * (counts["names"] + 1)
        self._ends = view[at:end].cast("I")
        self._names = view[end:]

    def find(self, ip: str) -> Origin | None:
        """Return who announces an address; None where the table does not know."""
        address = ipaddress.ip_address(ip)
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if address.version == 4:
            starts, places, key = self._v4, self._v4_places, int(address)
        else:
            starts, places, key = self._v6, self._v6_places, int(address) >> 64
        at = bisect_right(starts, key) - 1
        place = places[at] if at >= 0 else 0
        if not place:
            return None
        name = bytes(self._names[self._ends[place] : self._ends[place + 1]]).decode("utf-8", "replace")
        return Origin(asn=self._numbers[place], name=name or None)


@cache
def shipped() -> Origins:
    """Return the table that came with netdiag."""
    return load(data_dir("probes") / "routes" / "asn.bin")


def load(path: Path) -> Origins:
    """Return the table of a file; InputUnreadable where it is none."""
    if sys.byteorder != "little":
        raise Unsupported("the AS table can only be read on little-endian machines")
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, version, length = _HEAD.unpack_from(mapped)
        if magic != _MAGIC or version != 1:
            raise InputUnreadable(f"{path}: no AS table of version 1")
        header = json.loads(mapped[_HEAD.size : _HEAD.size + length])
        return Origins(memoryview(mapped), header, _HEAD.size + length)
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise InputUnreadable(f"{path}: {error}") from error
