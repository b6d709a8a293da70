# SPDX-License-Identifier: Apache-2.0
"""Handshake messages on their way into the recording, without what must not be kept.

What passes in the clear of a TLS handshake is kept as the fact `hello`, one per direction, with the lengths of
everything but without its secrets and bulk: `decode.kept` says what is copied. Of a session id four bytes are kept
apart, so that its echo is recognised; of a chain of certificates how its names lead from one to the next. What is left
is mostly the same for each connection of a client, and is written once. Standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from netdiag.decode.hello_facts import HelloFacts
from netdiag.decode.kept import messages
from netdiag.recorder.facts import monotonic_ns
from netdiag.recording.format import StreamLayout
from netdiag.recording.writer import RecordingWriter

__all__ = ["Hellos"]

_QUIET_NS = 300_000_000
"""A direction that was quiet for so long has said its hello."""
_MAX_OPEN = 20_000
_MAX_BYTES = 16_384
_CHANGE_CIPHER_BYTES = 6
"""A ChangeCipherSpec record in a packet of its own is not handed on; between two hellos it says nothing."""
_SEND = 1
"""Of `enum nd_direction`."""


class _Open:
    """A direction of a connection that may still say more of its hello."""

    def __init__(self, *, began: int, start: int) -> None:
        self.began, self.last, self.raw, self.whole = began, began, bytearray(), True
        self._start = start

    def add(self, now: int, offset: int, piece: bytes) -> None:
        """Add a piece that continues what is there; any other shows that something is missing."""
        self.last = now
        gap = offset - self._start - len(self.raw)
        fits = gap == 0 or (gap == _CHANGE_CIPHER_BYTES and _is_record(piece) and _ends_with_record(self.raw))
        if self.whole and fits and len(self.raw) + len(piece) <= _MAX_BYTES and (self.raw or _is_record(piece)):
            self._start += gap
            self.raw += piece
        else:
            self.whole = False


def _is_record(data: bytes) -> bool:
    """Tell whether the header of a record of the handshake's time stands here."""
    return data[:1] in (b"\x14", b"\x15", b"\x16") and data[1:2] == b"\x03"


class Hellos:
    """Puts pieces from the ring together and writes one fact per direction of a connection."""

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer
        self._open: dict[tuple[int, int], _Open] = {}
        self._facts = HelloFacts()

    def take(self, layout: StreamLayout, runs: Iterable[memoryview]) -> None:
        """Take new pieces, in the order in which the kernel wrote them."""
        at = {field.name: layout.offset + field.offset for field in layout.fields}
        data = b"".join(runs)
        for start in range(0, len(data), layout.stride):
            (now,) = struct.unpack_from("=Q", data, start + at["time"])
            (cookie,) = struct.unpack_from("=Q", data, start + at["cookie"])
            (offset,) = struct.unpack_from("=I", data, start + at["offset"])
            (length,) = struct.unpack_from("=H", data, start + at["length"])
            body = start + at["data"]
            self._add(cookie, data[start + at["direction"]], now, offset, data[body : body + length])

    def _add(self, cookie: int, direction: int, now: int, offset: int, piece: bytes) -> None:
        key = (cookie, direction)
        if key not in self._open and len(self._open) >= _MAX_OPEN:
            self.flush(now, quiet_ns=0)
        hello = self._open.get(key)
        if hello is None:
            # behind a proxy's CONNECT or after a pause a hello does not begin at the start of the stream
            hello = self._open[key] = _Open(began=now, start=offset)
        hello.add(now, offset, piece)

    def flush(self, now_ns: int | None = None, *, quiet_ns: int = _QUIET_NS) -> None:
        """Write the hellos that are complete: nothing came for `quiet_ns`."""
        now = monotonic_ns() if now_ns is None else now_ns
        for key in [key for key, hello in self._open.items() if now - hello.last >= quiet_ns]:
            hello = self._open.pop(key)
            self._write(key, hello.began, messages(bytes(hello.raw)), whole=hello.whole)

    def _write(self, key: tuple[int, int], began: int, hello: bytes, *, whole: bool) -> None:
        fact, _ = self._facts.fact(
            hello, cookie=key[0], direction="send" if key[1] == _SEND else "receive", at_ns=began, whole=whole
        )
        self._writer.fact("hello", fact)


def _ends_with_record(raw: bytes | bytearray) -> bool:
    at = 0
    while at + 5 <= len(raw):
        at += 5 + int.from_bytes(raw[at + 3 : at + 5], "big")
    return at == len(raw)
