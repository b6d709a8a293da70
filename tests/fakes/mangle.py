# SPDX-License-Identifier: Apache-2.0
"""Bytes as broken senders, broken networks and liars would send them: many per second, the same each time."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence

__all__ = ["COUNT", "mangled", "pieces"]

COUNT = int(os.environ.get("NETDIAG_FUZZ_EXAMPLES", "2000"))
"""How many mangled inputs a test takes."""
_LENGTHS = (0, 1, 2, 3, 4, 5, 31, 32, 33, 127, 128, 254, 255)


def mangled(good: Sequence[bytes], count: int = COUNT, *, seed: int = 1) -> Iterator[bytes]:
    """Yield inputs that begin as good ones: bytes changed, left out, doubled, swapped, cut off, joined to others."""
    draw = random.Random(seed)
    for _ in range(count):
        data = bytearray(draw.choice(good))
        for _ in range(draw.choice((1, 1, 2, 3, 8))):
            _change(draw, data, good)
        yield bytes(data[: draw.randrange(len(data) + 1)] if draw.random() < 0.2 else data)


def _change(draw: random.Random, data: bytearray, good: Sequence[bytes]) -> None:
    place = draw.randrange(len(data) + 1)
    size = draw.choice((1, 2, 3, 4, 16, 64))
    match draw.randrange(7):
        case 0 | 1:
            data[place : place + 1] = bytes([draw.choice(_LENGTHS)])
        case 2:
            data[place : place + 1] = bytes([draw.randrange(256)])
        case 3:
            del data[place : place + size]
        case 4:
            data[place:place] = data[place : place + size]
        case 5:
            data[place : place + size] = draw.randbytes(size)
        case _:
            other = draw.choice(good)
            start = draw.randrange(len(other))
            data[place:place] = other[start : start + draw.choice((4, 40, 400))]


def pieces(data: bytes, draw: random.Random, largest: int = 480) -> Iterator[tuple[int, bytes]]:
    """Yield parts of a stream with their offsets: mostly in order and whole, at times missing, twice, or elsewhere."""
    at = 0
    while at < len(data):
        size = draw.randrange(1, largest + 1)
        what = draw.random()
        if what > 0.03:
            yield (at if what > 0.06 else draw.randrange(1 << 32)), data[at : at + size]
        if what > 0.97:
            yield at, data[at : at + size]
        at += size
