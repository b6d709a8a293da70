# SPDX-License-Identifier: Apache-2.0
"""Packets out of pcap and pcapng files, many at a time.

A `Batch` is a stretch of the file with the places of the packets in it: nothing is copied, and whoever takes packets
apart does it for all of them at once. Blocks that are no packets (names, secrets, statistics) are handed on as they
come; unknown ones are skipped. Lengths are checked before they are believed. A file that ends or breaks in the middle
gives what came before.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netdiag.capture.source import Input, kind_of
from netdiag.errors import InputUnreadable

__all__ = ["PAD", "Batch", "Notes", "batches"]

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

PAD = 128
"""Zeros behind the last packet of a batch: headers can be looked at without asking whether they are there."""
_CHUNK = 8 << 20
_MOST_PACKETS = 1 << 16
_MAX_PACKET = 1 << 18
"""What capture tools cut packets to (tcpdump's MAXIMUM_SNAPLEN)."""
_MAX_BLOCK = 1 << 24
_MAX_INTERFACES = 1 << 12
_LATEST_NS = 1 << 62
_MAX_NAMES = 1 << 16

_SECTION, _INTERFACE, _PACKET, _SIMPLE, _NAMES, _STATISTICS, _ENHANCED, _SECRETS = (
    0x0A0D0D0A, 1, 2, 3, 4, 5, 6, 10,
)  # fmt: skip
_PACKET_BLOCKS = frozenset({_PACKET, _SIMPLE, _ENHANCED})
_PACKET_HEAD, _INTERFACE_HEAD, _STATISTICS_HEAD, _SECRETS_HEAD = 32, 8, 12, 8
_DROPS = frozenset({5, 7})
"""isb_ifdrop, isb_osdrop: packets that the interface, and the operating system, had no room for."""
_MOST_DROPPED = 1 << 53
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_MAX_TURNS = 64
_SECTION_MARK = b"\x0a\x0d\x0d\x0a"
_LEAST_BLOCK, _SECTION_HEAD = 12, 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some packets, in the order of the file."""

    raw: bytes
    """The part of the file that holds them, and `PAD` zeros."""
    bytes: Bytes
    """The same, as numbers."""
    at: Ints
    """Where each packet begins in it."""
    captured: Ints
    """Bytes of it that the file holds."""
    passed: Ints
    """Bytes that passed; never less than `captured`."""
    time_ns: Ints
    """When, nanoseconds of the clock that the file counts in; not yet put in order."""
    link: Ints
    """Type of the link layer (LINKTYPE_ numbers)."""


@dataclass(slots=True)
class Notes:
    """What a file says beside packets, and how it ended."""

    names: dict[bytes, str] = field(default_factory=dict)
    """Address as it is on the wire (4 or 16 bytes) → name, from name resolution blocks."""
    secrets: list[tuple[int, bytes]] = field(default_factory=list)
    """Decryption secrets as they came; whoever uses them empties the list."""
    dropped: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Packets that the capturing machine says it lost, by section, interface and kind."""
    packets: int = 0
    cut: int = 0
    """Packets of which the snap length left only a part."""
    stopped_at: int | None = None
    """Offset (in the unpacked file) of the first byte that could not be used."""
    stopped_why: str | None = None


def batches(source: Input, notes: Notes) -> Iterator[Batch]:
    """Yield the packets; InputUnreadable when it is no capture file, or not even its header is whole."""
    start = source.read(8)
    kind = kind_of(start)
    if kind is None and not start:
        why = source.broken or "it is empty"
        raise InputUnreadable(f"{source.name}: no capture file: {why} at byte 0")
    if kind not in {"pcap", "pcapng"}:
        raise InputUnreadable(
            f"{source.name}: no capture file: byte 0 starts neither pcap nor pcapng",
            hint="tcpdump, dumpcap and Wireshark write such files",
        )
    reader = _Pcap(source, notes, start) if kind == "pcap" else _Pcapng(source, notes, start)
    yield from reader.all()
    if source.broken is not None and notes.stopped_at is None:
        notes.stopped_at, notes.stopped_why = reader.position, source.broken


class _Stretches(ABC):
    """Reads a file in stretches; each begins with what the last one left over."""

    def __init__(self, source: Input, notes: Notes, start: bytes) -> None:
        self._source, self._notes = source, notes
        self._data = start
        self.position = 0
        """Offset of the first byte of `_data` in the unpacked file."""

    def all(self) -> Iterator[Batch]:
        """Yield all packets."""
        self._open()
        more, used = True, 0
        # a stretch may end before its data does: at a section of the other byte order
        while (more or used) and self._notes.stopped_at is None:
            piece = self._source.read(_CHUNK) if len(self._data) < _CHUNK + _MAX_BLOCK else b""
            more = bool(piece)
            data = b"".join((self._data, piece, bytes(PAD)))
            end = len(data) - PAD
            used, found = self._places(data, end)
            for first in range(0, len(found), _MOST_PACKETS):
                batch = self._batch(data, np.array(found[first : first + _MOST_PACKETS], np.int64))
                self._notes.packets += len(batch.at)
                self._notes.cut += int(np.count_nonzero(batch.captured < batch.passed))
                yield batch
            self._data = data[used:end]
            self.position += used
        if self._data and self._notes.stopped_at is None:
            self._stop(0, "the file ends in the middle of a packet")

    def _stop(self, at: int, why: str) -> None:
        if self._notes.stopped_at is None:
            self._notes.stopped_at, self._notes.stopped_why = self.position + at, why

    def _fill(self, count: int) -> bool:
        if len(self._data) < count:
            self._data += self._source.read(count - len(self._data))
        return len(self._data) >= count

    @abstractmethod
    def _open(self) -> None:
        """Read the header of the file."""

    @abstractmethod
    def _places(self, data: bytes, end: int) -> tuple[int, list[int]]:
        """Return how many bytes are used up, and where packets begin."""

    @abstractmethod
    def _batch(self, data: bytes, places: Ints) -> Batch:
        """Return the packets at these places."""


def _words(data: bytes, places: Ints, count: int, order: str) -> Ints:
    """Return `count` numbers of four bytes at each place, one row a place."""
    view = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), 4 * count)
    return np.asarray(view[places].view(f"{order}u4"), np.int64)


class _Pcap(_Stretches):
    """The format of libpcap: a header for the file, one for each packet."""

    _order = "<"
    _units = 1000
    _header = 16
    _link = 0

    def _open(self) -> None:
        if not self._fill(24):
            raise InputUnreadable(f"{self._source.name}: the file ends in its header, at byte {len(self._data)}")
        magic = self._data[:4]
        self._order = "<" if magic[3] == 0xA1 or magic == b"\x34\xcd\xb2\xa1" else ">"
        (number,) = struct.unpack(f"{self._order}I", magic)
        self._units = 1 if number == 0xA1B23C4D else 1000
        self._header = 24 if number == 0xA1B2CD34 else 16
        (major,) = struct.unpack_from(f"{self._order}H", self._data, 4)
        (network,) = struct.unpack_from(f"{self._order}I", self._data, 20)
        if major != 2:
            raise InputUnreadable(f"{self._source.name}: a pcap file of version {major} at byte 4; 2 is known")
        self._link = network & 0xFFFF
        self._data = self._data[24:]
        self.position = 24
        self._source.forget()  # only the other format brings secrets, which may come behind what they open

    def _places(self, data: bytes, end: int) -> tuple[int, list[int]]:
        places: list[int] = []
        add = places.append
        read = struct.Struct(f"{self._order}I").unpack_from
        header, at = self._header, 0
        while at + header <= end:
            (length,) = read(data, at + 8)
            if length > _MAX_PACKET:
                self._stop(at, f"a packet of {length} bytes")
                break
            after = at + header + length
            if after > end:
                break
            add(at)
            at = after
        return at, places

    def _batch(self, data: bytes, places: Ints) -> Batch:
        words = _words(data, places, 4, self._order)
        time = words[:, 0] * 1_000_000_000 + words[:, 1] * self._units
        return Batch(
            raw=data,
            bytes=np.frombuffer(data, np.uint8),
            at=places + self._header,
            captured=words[:, 2],
            passed=np.maximum(words[:, 3], words[:, 2]),
            time_ns=time,
            link=np.full(len(places), self._link, np.int64),
        )


@dataclass(slots=True, kw_only=True)
class _Interface:
    link: int
    snap: int
    multiply: int = 1000
    divide: int = 1
    shift: int = 0
    """Units of 2^-shift seconds, where that is not 0."""
    offset_ns: int = 0

    def nanoseconds(self, units: NDArray[np.uint64]) -> Ints:
        """Return time stamps as nanoseconds, absurd ones as the latest that there is."""
        if self.shift:
            low = np.uint64((1 << self.shift) - 1)
            seconds, part = units >> np.uint64(self.shift), units & low
            fine = min(self.shift, 32)
            part = (part >> np.uint64(self.shift - fine)) * np.uint64(1_000_000_000) >> np.uint64(fine)
            seconds = np.minimum(seconds, np.uint64(_LATEST_NS // 1_000_000_000))
            found = seconds * np.uint64(1_000_000_000) + part
        else:
            found = np.minimum(units // np.uint64(self.divide), np.uint64(_LATEST_NS // self.multiply))
            found *= np.uint64(self.multiply)
        moved = np.minimum(found, np.uint64(_LATEST_NS)).astype(np.int64) + self.offset_ns
        clipped: Ints = np.clip(moved, 0, _LATEST_NS)
        return clipped


class _Pcapng(_Stretches):
    """The format of Wireshark: blocks of many types, in sections of either byte order."""

    def __init__(self, source: Input, notes: Notes, start: bytes) -> None:
        super().__init__(source, notes, start)
        self._order = "<"
        self._section, self._turns = -1, 0
        self._interfaces: list[_Interface] = []
        """Of all sections."""
        self._base = 0
        """Where those of this section begin."""
        self._owners: list[int] = []
        self._simple: list[int] = []
        """Which packets of this stretch stand in simple blocks."""

    def _open(self) -> None:
        if not self._fill(28):
            raise InputUnreadable(f"{self._source.name}: the file ends in its header, at byte {len(self._data)}")
        if self._data[8:12] not in _ORDERS:
            raise InputUnreadable(f"{self._source.name}: no pcapng file: its byte-order mark is missing at byte 8")

    def _places(self, data: bytes, end: int) -> tuple[int, list[int]]:
        places: list[int] = []
        at, self._owners, self._simple = 0, [], []
        owners = self._owners
        read = struct.Struct(f"{self._order}IIIIII").unpack_from
        while at + _LEAST_BLOCK <= end:
            kind, length, owner, _, _, held = read(data, at)
            # nearly all blocks are this one
            if kind == _ENHANCED and held + 32 <= length <= _MAX_PACKET and not length & 3 and at + length <= end:
                owner += self._base
                if owner < len(self._interfaces):
                    places.append(at)
                    owners.append(owner)
                    at += length
                    continue
                self._stop(at, f"a packet of interface {owner - self._base}, which the file does not describe")
                break
            length = self._other(data, at, end, places)
            if length == 0:
                break
            read = struct.Struct(f"{self._order}IIIIII").unpack_from
            at += length
        return at, places

    def _other(self, data: bytes, at: int, end: int, places: list[int]) -> int:
        """Take any block; return its length, 0 where this stretch ends before it."""
        section = data[at : at + 4] == _SECTION_MARK
        if section and not self._turn(data, at, end, placed=bool(places)):
            return 0
        kind, length = struct.unpack_from(f"{self._order}II", data, at)
        if length < _LEAST_BLOCK or length > _MAX_BLOCK or length % 4:
            self._stop(at, f"a block of {length} bytes")
            return 0
        if at + length > end:
            return 0
        if kind in _PACKET_BLOCKS:
            if self._is_packet(data, at, kind, length, len(places)):
                places.append(at)
        else:
            self._take_other(data, at, kind, length)
        return 0 if self._notes.stopped_at is not None else length

    def _turn(self, data: bytes, at: int, end: int, *, placed: bool) -> bool:
        """Take the byte order of the section that begins here; False where this stretch ends before it.

        The packets of a stretch are read in one order: where another one begins, so does the next stretch.
        """
        if at + _SECTION_HEAD > end:
            return False
        order = _ORDERS.get(data[at + 8 : at + 12])
        if order is None:
            self._stop(at, "a section without byte-order mark")
        elif order != self._order and not placed:
            self._turns += 1
            if self._turns > _MAX_TURNS:
                self._stop(at, "too many changes of the byte order")
            self._order = order
        return self._notes.stopped_at is None and order == self._order

    def _is_packet(self, data: bytes, at: int, kind: int, length: int, index: int) -> bool:
        """Note a packet in one of the older blocks; a block whose lengths do not fit holds none."""
        if kind == _SIMPLE:
            owner, held, room = 0, length - 16, length - 16
        elif kind == _PACKET and length >= _PACKET_HEAD:
            owner, held = struct.unpack_from(f"{self._order}H10xI", data, at + 8)
            room = length - _PACKET_HEAD
        elif length >= _PACKET_HEAD:
            owner, held = struct.unpack_from(f"{self._order}I8xI", data, at + 8)
            room = length - _PACKET_HEAD
        else:
            return False
        if self._base + owner >= len(self._interfaces):
            self._stop(at, f"a packet of interface {owner}, which the file does not describe")
        elif held < 0 or held > min(room, _MAX_PACKET):
            self._stop(at, f"a packet of {held} bytes in a block of {length}")
        else:
            if kind == _SIMPLE:
                self._simple.append(index)
            self._owners.append(self._base + owner)
            return True
        return False

    def _take_other(self, data: bytes, at: int, kind: int, length: int) -> None:
        """Take a block that holds no packet."""
        body = data[at + 8 : at + length - 4]
        if kind == _SECTION:
            self._section += 1
            self._base = len(self._interfaces)
        elif kind == _INTERFACE:
            if len(self._interfaces) >= _MAX_INTERFACES or len(body) < _INTERFACE_HEAD:
                self._stop(at, "an interface that is not whole, or one too many")
                return
            self._interfaces.append(_interface(body, self._order))
        elif kind == _NAMES:
            _names(body, self._order, self._notes)
        elif kind == _STATISTICS and len(body) >= _STATISTICS_HEAD:
            (owner,) = struct.unpack_from(f"{self._order}I", body, 0)
            for code, value in _options(body, _STATISTICS_HEAD, self._order):
                if code in _DROPS and len(value) == struct.calcsize("Q"):
                    (count,) = struct.unpack(f"{self._order}Q", value)
                    self._notes.dropped[self._section, owner, code] = min(count, _MOST_DROPPED)
        elif kind == _SECRETS and len(body) >= _SECRETS_HEAD:
            secret, size = struct.unpack_from(f"{self._order}II", body, 0)
            self._notes.secrets.append((secret, body[_SECRETS_HEAD : _SECRETS_HEAD + size]))

    def _batch(self, data: bytes, places: Ints) -> Batch:
        count = len(places)
        owners = np.array(self._owners[:count], np.int64)
        simple = np.zeros(count, bool)
        simple[[index for index in self._simple if index < count]] = True
        self._simple = [index - count for index in self._simple if index >= count]
        del self._owners[:count]
        words = _words(data, places, 7, self._order)
        units = (words[:, 3].astype(np.uint64) << np.uint64(32)) | words[:, 4].astype(np.uint64)
        captured, passed, at = words[:, 5].copy(), words[:, 6].copy(), places + 28
        time, link = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for owner in np.unique(owners).tolist():
            mine, one = owners == owner, self._interfaces[owner]
            time[mine], link[mine] = one.nanoseconds(units[mine]), one.link
            short = mine & simple
            if short.any():
                passed[short], at[short] = words[short, 2], places[short] + 12
                held = np.minimum(words[short, 1] - 16, one.snap or _MAX_PACKET)
                captured[short] = np.minimum(passed[short], held)
        if simple.any():  # such a packet has no time: it passed when its neighbour did
            time = _neighbours(time, simple)
        return Batch(
            raw=data,
            bytes=np.frombuffer(data, np.uint8),
            at=at,
            captured=captured,
            passed=np.maximum(passed, captured),
            time_ns=time,
            link=link,
        )


def _neighbours(time: Ints, unknown: NDArray[np.bool_]) -> Ints:
    last = np.maximum.accumulate(np.where(unknown, -1, np.arange(len(time))))
    return np.where(last >= 0, time[np.maximum(last, 0)], 0)


def _options(body: bytes, at: int, order: str) -> Iterator[tuple[int, bytes]]:
    while at + 4 <= len(body):
        code, size = struct.unpack_from(f"{order}HH", body, at)
        if code == 0 or at + 4 + size > len(body):
            return
        yield code, body[at + 4 : at + 4 + size]
        at += 4 + (size + 3) // 4 * 4


def _interface(body: bytes, order: str) -> _Interface:
    link, _, snap = struct.unpack_from(f"{order}HHI", body, 0)
    one = _Interface(link=link, snap=snap)
    for code, value in _options(body, 8, order):
        if code == 9 and len(value) == 1:  # if_tsresol
            power = value[0] & 0x7F
            if value[0] & 0x80:
                one.shift = min(power, 63)
                one.multiply = 1_000_000_000 if power == 0 else one.multiply
            else:
                one.multiply, one.divide = (10 ** (9 - power), 1) if power <= 9 else (1, 10 ** min(power - 9, 18))
        elif code == 14 and len(value) == 8:  # if_tsoffset
            (seconds,) = struct.unpack(f"{order}q", value)
            one.offset_ns = max(min(seconds, 1 << 32), -(1 << 32)) * 1_000_000_000
    return one


def _names(body: bytes, order: str, notes: Notes) -> None:
    """Take a name resolution block: addresses with their first name."""
    at = 0
    while at + 4 <= len(body) and len(notes.names) < _MAX_NAMES:
        kind, size = struct.unpack_from(f"{order}HH", body, at)
        value = body[at + 4 : at + 4 + size]
        width = {1: 4, 2: 16}.get(kind)
        if kind == 0:
            return
        if width is not None and len(value) > width:
            name = value[width:].split(b"\0", 1)[0][:255]
            notes.names.setdefault(value[:width], name.decode("utf-8", "backslashreplace"))
        at += 4 + (size + 3) // 4 * 4
