# SPDX-License-Identifier: Apache-2.0
"""Frames of plaintext as the recorder sends them, from conversations as they pass."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from netdiag.decode.piece import Piece
from netdiag.recording.pieces import control, frame_header
from netdiag.testing import layout

__all__ = ["LARGE", "SMALL", "frames", "layouts_frame", "losses_frame", "record"]

SMALL, LARGE = "plain", "plain_large"
_ROOM = {SMALL: 256, LARGE: 4096}


def record(piece: Piece, stream: str = SMALL, **members: Any) -> bytes:
    """Return one record as the ring holds it; `members` replace what is there."""
    made, room = layout(stream), _ROOM[stream]
    data = piece.data[:room]
    values = {
        "time": piece.at_ns, "entered": piece.at_ns, "cookie": 5, "offset": piece.offset, "handle": 1, "generation": 0,
        "length": piece.length, "copied": len(data), "tail": 0, "tgid": 100, "tid": 100, "library": 1, "binding": 1,
        "direction": 1 if piece.direction == "send" else 2, "flags": 1, **members,
    }  # fmt: skip
    raw = bytearray(made.stride)
    struct.pack_into("<II", raw, 0, made.size, 0)
    for field in made.fields:
        at = made.offset + field.offset
        if field.name == "data":
            raw[at : at + len(data)] = data
        elif field.name in values:
            raw[at : at + field.size] = int(values[field.name]).to_bytes(field.size, "little")
    return bytes(raw)


def frames(records: Iterable[bytes], stream: str = SMALL) -> bytes:
    """Return a frame for each record."""
    return b"".join(frame_header(layout(stream).stream, len(each)) + each for each in records)


def layouts_frame() -> bytes:
    """Return the first frame."""
    return control({"say": "layouts", "layouts": [layout(name).to_json() for name in (SMALL, LARGE)]})


def losses_frame() -> bytes:
    """Return the last frame."""
    return control({"say": "losses", "streams": {}})
