# SPDX-License-Identifier: Apache-2.0
"""TLS records in one direction of a stream: from header to header, whatever packets they came in.

Takes pieces in order of the stream, as many batches as there are. Where the thread is lost - bytes that the file does
not hold - that is said, and found again at the start of a packet that begins with a record's header.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from netdiag.capture.sequence import Piece
from netdiag.tables.codes import RecordType

__all__ = ["Record", "Walker", "is_header"]

Record = tuple[int, int, int, int, int, int, int]
"""Instant, type, length, first and second byte of the fragment (0 where not seen), version, flags."""

_PEEK, _HEADER = 7, 5
_MAX_FRAGMENT = 16384 + 2048
"""RFC 5246 section 6.2.3: the most that any version allows."""
_MAX_HELLO = 16_384
_RESYNCED = 1
_HELLOS = (1, 2)
_DATA, _HANDSHAKE, _CHANGE = RecordType.APPLICATION_DATA, RecordType.HANDSHAKE, RecordType.CHANGE_CIPHER_SPEC


def is_header(data: bytes, at: int) -> bool:
    """Tell whether the header of a TLS record stands here."""
    length = data[at + 3] << 8 | data[at + 4]
    return 20 <= data[at] <= 23 and data[at + 1] == 3 and data[at + 2] <= 4 and 0 < length <= _MAX_FRAGMENT


class Walker:
    """Follows one direction."""

    def __init__(self, start: int, *, sure: bool) -> None:
        """`start` is where records begin; `sure`: earlier ones would have been seen."""
        self.next = start
        self._part = b""
        """The first bytes of a header that goes on in a later piece."""
        self._carried = b"", 0
        """What of a header came in earlier pieces, and where it began."""
        self._lost = False
        self._resynced = 0 if sure else _RESYNCED
        self._ciphered = False
        self._hello = bytearray()
        self._hello_at = 0
        self._done = self._until = start
        self._whole = sure
        self.records: list[Record] = []
        """What was found since the list was last emptied."""
        self.told = False
        """Handshake messages in the clear are over for now: a record of data came."""

    def feed(self, pieces: Sequence[Piece]) -> None:
        """Take pieces that follow those before, some bytes perhaps missing between them."""
        if not pieces:
            return
        last = pieces[-1]
        if not self._lost and not self._part and self.next >= last[0] + last[1] and self._done >= self._until:
            return
        starts = [piece[0] for piece in pieces]
        self._carried = self._part, self.next
        self._walk(pieces, starts)
        self._copy(pieces)

    def skip(self, start: int, end: int) -> bool:
        """Pass whole records of data that begin and end here; False where what lies here is to be looked at."""
        if self._lost or self._part or self._resynced or self.next != start or self._done < self._until:
            return False
        self.next, self.told = end, True
        return True

    def hello(self) -> tuple[bytes, int, bool] | None:
        """Return the records with handshake messages in the clear, when they began, whether all is there; only once."""
        if not self._hello:
            return None
        found = bytes(self._hello), self._hello_at, self._whole and self._done >= self._until
        self._hello.clear()
        self._hello_at = 0
        return found

    def _walk(self, pieces: Sequence[Piece], starts: list[int]) -> None:
        index = 0
        while index < len(pieces):
            if self._lost:
                index = self._find(pieces, index)
                if index == len(pieces):
                    return
            wanted = self.next + len(self._part)
            index = max(bisect_right(starts, wanted, index) - 1, 0)
            offset, length, held, at, data, place = pieces[index]
            skip = wanted - offset
            if skip < 0 or (skip >= length and index + 1 < len(pieces)):
                self._lose(at)
                index += skip >= 0
                continue
            if skip >= length:
                return
            if not self._part and skip + _PEEK <= held:
                place += skip
                if not self._take(data, place, at):
                    index += 1
                continue
            have = data[place + skip : place + min(skip + _PEEK - len(self._part), held)]
            self._part += have
            if not self._assembled(at, cut=skip + len(have) >= held < length):
                index += 1

    def _assembled(self, at: int, *, cut: bool) -> bool:
        """Read a header that came in parts; False where it is not whole yet, or none."""
        part = self._part
        enough = len(part) >= _HEADER and (part[0] == _DATA or cut or len(part) >= min(_PEEK, _HEADER + _size(part)))
        if not enough:
            if cut:
                self._lose(at)
            return False
        self._part = b""
        return self._take(part.ljust(_PEEK, b"\0"), 0, at)

    def _take(self, data: bytes, place: int, at: int) -> bool:
        """Note the record whose header stands here; False where there is none."""
        kind = data[place]
        length = data[place + 3] << 8 | data[place + 4]
        version = data[place + 2]
        if not (20 <= kind <= 23 and data[place + 1] == 3 and version <= 4 and 0 < length <= _MAX_FRAGMENT):
            self._lose(at)
            return False
        begins = self.next
        self.next = begins + _HEADER + length
        if kind == _DATA:
            self.records.append((at, kind, length, 0, 0, version, self._resynced))
            self._resynced, self.told = 0, True
            return True
        first, second = data[place + 5], data[place + 6]
        self.records.append((at, kind, length, first, second if length > 1 else 0, version, self._resynced))
        self._resynced = 0
        if kind == _HANDSHAKE and (not self._ciphered or (first in _HELLOS and second == 0)):
            self._want(begins, at)
        elif kind == _CHANGE:
            self._ciphered = True
        return True

    def _want(self, begins: int, at: int) -> None:
        """Have the handshake record that begins here copied."""
        if len(self._hello) >= _MAX_HELLO:
            return
        if self._done >= self._until:
            before, where = self._carried
            here = before if where == begins else b""
            self._hello += here
            self._done = begins + len(here)
        self._until = self.next
        self._hello_at = self._hello_at or at

    def _copy(self, pieces: Sequence[Piece]) -> None:
        """Copy what is wanted of these pieces."""
        if self._done >= self._until:
            return
        for offset, length, held, _, data, place in pieces:
            if offset + length <= self._done:
                continue
            if offset >= self._until:
                break
            if offset > self._done:
                self._whole, self._done = False, self._until  # something is missing
                break
            begin, end = self._done - offset, min(self._until - offset, length)
            if end > held:
                self._whole = False
            self._hello += data[place + begin : place + min(end, held)]
            self._done = offset + end if end <= held else self._until
        del self._hello[_MAX_HELLO:]

    def _lose(self, at: int) -> None:
        self._part = b""
        if not self._lost:
            self._lost = True
            self.records.append((at, RecordType.GAP, 0, 0, 0, 0, 0))

    def _find(self, pieces: Sequence[Piece], index: int) -> int:
        """Return the first piece that begins with a record's header; their number where none does."""
        while index < len(pieces):
            offset, _, held, _, data, place = pieces[index]
            if held >= _PEEK and offset >= self.next - _MAX_FRAGMENT and is_header(data, place):
                self._lost, self._resynced, self.next = False, _RESYNCED, offset
                return index
            index += 1
        return index


def _size(part: bytes) -> int:
    return part[3] << 8 | part[4]
