# SPDX-License-Identifier: Apache-2.0
"""Events of a streamed body: Server-Sent Events and JSON by lines, however the pieces cut them. Bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Event", "Events"]

_MAX_EVENT = 16 * 1024
"""Bytes kept of an event that has not ended; of a longer one the rest is passed over."""
# https://html.spec.whatwg.org/multipage/server-sent-events.html: lines end with CR LF, LF or CR
_BLANK = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_STARTS = re.compile(rb"(?:data|event|id|retry)?:|data|event")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event, as much of it as was seen."""

    name: bytes
    """Its `event:` field; empty without."""
    data: bytes = field(repr=False)
    comment: bool
    """It is a comment alone, as servers send to keep a connection alive."""
    end: int
    """Where it ended in the bytes that were fed last; for one that is given up, their length."""


class Events:
    """Splits a body into events."""

    def __init__(self, *, by_line: bool = False) -> None:
        """`by_line`: each line is an event (NDJSON)."""
        self._by_line = by_line
        self._separator = _LINE_END if by_line else _BLANK
        self._kept = bytearray()
        self._dropped = False
        self._lost = False
        self._began = False

    def feed(self, data: bytes, *, new_piece: bool = False) -> Iterator[Event]:
        """Yield the events that end in `data`. `new_piece`: a write of the server may begin here."""
        if self._lost:
            if not (new_piece and self._plausible(data)):
                found = self._separator.search(data)
                if found is None:
                    return
                self._lost = False
                yield from self._split(data, found.end())
                return
            self._lost = False
        yield from self._split(data, 0)

    def gap(self) -> Iterator[Event]:
        """Bytes were not seen: yield what there was of the event that they cut, and look for the next one."""
        if self._kept:
            event = self._event(bytes(self._kept), 0)
            self._kept.clear()
            if event is not None:
                yield event
        self._lost = True

    def end(self) -> Iterator[Event]:
        """The body ended: yield the last event, where its end is missing. A line needs none."""
        if self._by_line and self._kept:
            event = self._event(bytes(self._kept), 0)
            if event is not None:
                yield event
        self._kept.clear()

    def _plausible(self, data: bytes) -> bool:
        return data[:1] == b"{" if self._by_line else bool(_STARTS.match(data))

    def _split(self, data: bytes, at: int) -> Iterator[Event]:
        kept = self._kept
        while at < len(data):
            end = self._end_of_event(data, at)
            if end is None:
                self._keep(data[at:])
                return
            self._keep(data[at:end])
            at = end
            event = self._event(bytes(kept), at)
            kept.clear()
            if event is not None:
                yield event

    def _end_of_event(self, data: bytes, at: int) -> int | None:
        """Return where the next separator ends; it may begin in what is kept already."""
        seam = bytes(self._kept[-3:])
        if seam:
            found = self._separator.search(seam + data[at : at + 4])
            if found is not None and found.start() < len(seam) < found.end():
                return at + found.end() - len(seam)
        found = self._separator.search(data, at)
        return None if found is None else found.end()

    def _keep(self, data: bytes) -> None:
        room = _MAX_EVENT - len(self._kept)
        if len(data) <= room:
            self._kept += data
        else:
            # the separator must be found across the seam, whatever was dropped between
            self._kept += data[: max(room - 4, 0)]
            self._kept[-4:] = data[-4:]

    def _event(self, raw: bytes, end: int) -> Event | None:
        if not self._began:
            self._began = True
            raw = raw.removeprefix(_BOM)
        if self._by_line:
            line = raw.strip().strip(b",[] \t\r\n") if raw[:1] in b",[" else raw.strip()
            return Event(b"", line, False, end) if line else None
        return _parse(raw, end)


def _parse(raw: bytes, end: int) -> Event | None:
    name, lines, comment = b"", [], False
    for line in _LINE_END.split(raw):
        if not line:
            continue
        field_, colon, value = line.partition(b":")
        if not field_ and colon:
            comment = True
            continue
        value = value.removeprefix(b" ")
        if field_ == b"data":
            lines.append(value)
        elif field_ == b"event":
            name = value[:64]
    if not lines and not name:
        return Event(b"", b"", True, end) if comment else None
    return Event(name, b"\n".join(lines), False, end)
