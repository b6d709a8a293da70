# SPDX-License-Identifier: Apache-2.0
"""How records that no file may hold go from the recorder to the process that takes them apart. Standard library only.

A Unix socket carries frames: `u32` stream, `u32` length of the body, body (little endian). Stream 0 is one JSON object:

    {"say": "layouts", "layouts": [layout as in a recording, …]}     first
    {"say": "until", "time": ns}                                     all that was written up to then was sent before
    {"say": "losses", "streams": {name: {"seen": n, "lost": n}}}     last; seen and lost as the kernel counted them

The streams come from different rings: put their records in order by time. Every other body is a run of whole records
as the kernel's ring holds them, the ring's header in front of each. End of file without the last frame means that the
recorder died.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from netdiag.recording.format import UNSIGNED, FieldKind, StreamLayout, parse_json

__all__ = ["CONTROL", "MAX_FRAME_BYTES", "Frames", "PlainRecord", "control", "frame_header", "records"]

CONTROL = 0
"""The stream of JSON frames."""
MAX_FRAME_BYTES = 1 << 20
_HEADER = struct.Struct("<II")


def frame_header(stream: int, length: int) -> bytes:
    """Return what stands before a body of `length` bytes."""
    return _HEADER.pack(stream, length)


def control(message: Mapping[str, Any]) -> bytes:
    """Return a whole frame with a JSON object."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return frame_header(CONTROL, len(body)) + body


class Frames:
    """Cuts what comes out of the socket into frames; the socket may be a stream or keep packets apart."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.layouts: dict[int, StreamLayout] = {}
        """Stream → layout, once the first frame has come."""
        self.losses: dict[str, dict[str, int]] | None = None
        """From the last frame; None = it has not come."""
        self.until: int | None = None
        """Of all streams all records up to this instant (CLOCK_MONOTONIC, ns) have come; None = nothing was said."""

    def feed(self, data: bytes) -> Iterator[tuple[StreamLayout, bytes]]:
        """Yield layout and body of each run of records that is complete now; ValueError for what is no such frame."""
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= _HEADER.size:
            stream, length = _HEADER.unpack_from(self._buffer, at)
            if length > MAX_FRAME_BYTES:
                raise ValueError(f"a frame of {length} bytes")
            end = at + _HEADER.size + length
            if end > len(self._buffer):
                break
            body = bytes(self._buffer[at + _HEADER.size : end])
            at = end
            if stream == CONTROL:
                try:
                    self._control(parse_json(body))
                except (KeyError, TypeError) as error:
                    raise ValueError(f"a message that is none: {error!r}") from error
            elif stream in self.layouts:
                yield self.layouts[stream], body
            else:
                raise ValueError(f"a frame of stream {stream}, whose layout was not told")
        del self._buffer[:at]

    def _control(self, message: Mapping[str, Any]) -> None:
        if message.get("say") == "layouts":
            layouts = [StreamLayout.from_json(each) for each in message["layouts"]]
            self.layouts = {layout.stream: layout for layout in layouts}
        elif message.get("say") == "until":
            self.until = int(message["time"])
        elif message.get("say") == "losses":
            self.losses = dict(message["streams"])


class PlainRecord(NamedTuple):
    """One `plain_event` or `plain_large_event`; bpf/include/netdiag/plain_event.h explains the members."""

    time: int
    entered: int
    cookie: int
    offset: int
    handle: int
    generation: int
    length: int
    tgid: int
    tid: int
    direction: int
    library: int
    binding: int
    flags: int
    data: bytes
    """The first bytes."""
    tail: bytes
    """The last ones, where `data` does not reach them."""


_NUMBERS = PlainRecord._fields[:-2]


class _Reader:
    """Reads the numbers of a record by one call of struct."""

    def __init__(self, layout: StreamLayout) -> None:
        fields = {field.name: field for field in layout.fields}
        wanted = sorted((fields[name] for name in (*_NUMBERS, "copied", "tail")), key=lambda field: field.offset)
        shape, at = "<", 0
        for field in wanted:
            if field.kind is not FieldKind.UINT:
                raise ValueError(f"member {field.name} of {layout.struct} is no number")
            shape += f"{field.offset - at}x{UNSIGNED[field.size]}"
            at = field.offset + field.size
        self._struct = struct.Struct(shape)
        names = [field.name for field in wanted]
        self._order: Sequence[int] = [names.index(name) for name in _NUMBERS]
        self._copied, self._tail = names.index("copied"), names.index("tail")
        self._data, self._room = fields["data"].offset, fields["data"].size

    def read(self, body: bytes, at: int) -> PlainRecord:
        numbers = self._struct.unpack_from(body, at)
        copied = min(numbers[self._copied], self._room)
        tail = min(numbers[self._tail], self._room - copied)
        start = at + self._data
        middle = start + copied
        said = [numbers[index] for index in self._order]
        return PlainRecord._make((*said, body[start:middle], body[middle : middle + tail]))


_readers: dict[StreamLayout, _Reader] = {}


def records(layout: StreamLayout, body: bytes) -> Iterator[PlainRecord]:
    """Yield the records of a run; ValueError when it holds no whole ones, or their layout is another one."""
    if len(body) % layout.stride:
        raise ValueError(f"{len(body)} bytes are no whole records of {layout.stride}")
    try:
        reader = _readers.get(layout) or _readers.setdefault(layout, _Reader(layout))
    except KeyError as error:
        raise ValueError(f"struct {layout.struct} has no member {error}") from error
    for at in range(layout.offset, len(body), layout.stride):
        yield reader.read(body, at)
