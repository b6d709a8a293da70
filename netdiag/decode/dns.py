# SPDX-License-Identifier: Apache-2.0
"""Messages of the domain name system, from bytes (RFC 1035, 6891): what was asked, what was answered. Pure.

`read` takes one message as UDP carries it, whole or cut, and never raises: what is not there is left out and told as
`cut`. Every length is checked and every pointer must point backwards, so no message makes work beyond its size. Of
answers only addresses and alias targets are read; the contents of other records are counted and skipped.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Answer", "Message", "Question", "rcode_name", "read", "split", "type_name"]

_HEADER = 12
_MAX_QUESTIONS = 8
_MAX_RECORDS = 512
"""Over all sections; 64 KiB could hold five thousand, a real answer has a few dozen."""
_MAX_NAME = 255
"""Bytes of a name on the wire (RFC 1035 section 2.3.4)."""
_MAX_JUMPS = 64
"""Compression pointers followed for one name; each must also point before the last."""
_POINTER, _LABEL = 0xC0, 0x00
_A, _CNAME, _SOA, _AAAA, _DNAME, _OPT = 1, 5, 6, 28, 39, 41
_ADDRESS_BYTES = {_A: 4, _AAAA: 16}
_QUERY_OPCODES = frozenset({0, 1, 2, 4, 5, 6})
_LAST_SIGNED_TTL = 0x7FFFFFFF
"""A TTL with its highest bit set counts as zero (RFC 2181 section 8)."""

_TYPES = {
    1: "A",
    2: "NS",
    5: "CNAME",
    6: "SOA",
    12: "PTR",
    13: "HINFO",
    15: "MX",
    16: "TXT",
    28: "AAAA",
    29: "LOC",
    33: "SRV",
    35: "NAPTR",
    39: "DNAME",
    41: "OPT",
    43: "DS",
    44: "SSHFP",
    46: "RRSIG",
    47: "NSEC",
    48: "DNSKEY",
    50: "NSEC3",
    52: "TLSA",
    64: "SVCB",
    65: "HTTPS",
    99: "SPF",
    251: "IXFR",
    252: "AXFR",
    255: "ANY",
    256: "URI",
    257: "CAA",
}
_RCODES = {
    0: "NOERROR",
    1: "FORMERR",
    2: "SERVFAIL",
    3: "NXDOMAIN",
    4: "NOTIMP",
    5: "REFUSED",
    6: "YXDOMAIN",
    7: "YXRRSET",
    8: "NXRRSET",
    9: "NOTAUTH",
    10: "NOTZONE",
    16: "BADVERS",
    23: "BADCOOKIE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a message asks for."""

    name: str
    """In lower case, without the last dot; `.` for the root. What is no plain letter stands as `\\032`."""
    qtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One record of the answer section."""

    name: str
    rtype: str
    ttl_s: int
    data: str | None
    """An address, or the name that an alias points to; None for the contents of every other type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message."""

    id: int
    response: bool
    opcode: int
    rcode: int
    """With the upper bits of EDNS."""
    truncated: bool
    """The sender says that not everything fitted: the client asks again over TCP."""
    authoritative: bool
    recursion: bool
    """Recursion was desired."""
    questions: tuple[Question, ...] = ()
    answers: tuple[Answer, ...] = ()
    edns: bool = False
    udp_bytes: int | None = None
    """Largest answer that the sender takes over UDP, by EDNS."""
    negative_ttl_s: int | None = None
    """How long an answer without data may be kept: of the SOA record (RFC 2308)."""
    cut: bool = False
    """Not all of it was there or fitted."""

    @property
    def error(self) -> str | None:
        """The name of the response code when it tells of a failure; None for a good answer and for a question."""
        return rcode_name(self.rcode) if self.response and self.rcode else None

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses among the answers, in their order."""
        return tuple(each.data for each in self.answers if each.rtype in ("A", "AAAA") and each.data is not None)

    @property
    def ttl_s(self) -> int | None:
        """How long the whole answer may be kept: the least TTL in its chain, without answers that of the denial."""
        return min((each.ttl_s for each in self.answers), default=self.negative_ttl_s if self.response else None)


def type_name(number: int) -> str:
    """Return `AAAA` for 28, `TYPE65280` for a type without a name here (RFC 3597)."""
    return _TYPES.get(number) or f"TYPE{number}"


def rcode_name(number: int) -> str:
    """Return `NXDOMAIN` for 3, `RCODE12` for one without a name here."""
    return _RCODES.get(number) or f"RCODE{number}"


def read(data: bytes) -> Message | None:
    """Return what a message says; None where the bytes cannot be one (no header, or one that nobody sends)."""
    if len(data) < _HEADER:
        return None
    ident, flags, *counts = (int.from_bytes(data[at : at + 2], "big") for at in range(0, _HEADER, 2))
    opcode, response = flags >> 11 & 15, bool(flags & 0x8000)
    plausible = opcode in _QUERY_OPCODES and counts[0] <= _MAX_QUESTIONS and not flags & 0x0040
    if not plausible or (not response and flags & 15):
        return None
    body = _Body(data)
    body.read(counts)
    if counts[0] and not body.questions and not body.cut:
        return None
    return Message(
        id=ident,
        response=response,
        opcode=opcode,
        rcode=flags & 15 | body.upper_rcode << 4,
        truncated=bool(flags & 0x0200),
        authoritative=bool(flags & 0x0400),
        recursion=bool(flags & 0x0100),
        questions=tuple(body.questions),
        answers=tuple(body.answers),
        edns=body.edns,
        udp_bytes=body.udp_bytes,
        negative_ttl_s=body.negative_ttl,
        cut=body.cut,
    )


def split(stream: bytes) -> tuple[list[bytes], int]:
    """Return the whole messages at the start of a TCP stream and how many of its bytes they took (RFC 7766)."""
    found, at = [], 0
    while len(stream) - at >= 2:
        end = at + 2 + int.from_bytes(stream[at : at + 2], "big")
        if end > len(stream):
            break
        found.append(stream[at + 2 : end])
        at = end
    return found, at


class _CutError(Exception):
    """There is less than a length says, or a name that cannot be."""


class _Body:
    """Reads the four sections of a message."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._records = data, _HEADER, 0
        self.questions: list[Question] = []
        self.answers: list[Answer] = []
        self.edns, self.upper_rcode = False, 0
        self.udp_bytes: int | None = None
        self.negative_ttl: int | None = None
        self.cut = False

    def read(self, counts: Sequence[int]) -> None:
        """Read what the counts of the header promise, as far as it is there."""
        try:
            for _ in range(counts[0]):
                name = self._name()
                self.questions.append(Question(name=name, qtype=type_name(self._number(2))))
                self._number(2)  # class
            for section, count in enumerate(counts[1:]):
                for _ in range(count):
                    self._record(section)
        except _CutError:
            self.cut = True

    def _record(self, section: int) -> None:
        self._records += 1
        name = self._name()
        kind, of, ttl, length = self._number(2), self._number(2), self._number(4), self._number(2)
        end = self._at + length
        if end > len(self._data) or self._records > _MAX_RECORDS:
            raise _CutError
        if kind == _OPT:
            self.edns, self.udp_bytes, self.upper_rcode = True, of, ttl >> 24
        ttl = ttl if ttl <= _LAST_SIGNED_TTL else 0
        if section == 0 and kind != _OPT:
            self.answers.append(Answer(name=name, rtype=type_name(kind), ttl_s=ttl, data=self._content(kind, end)))
        elif section == 1 and kind == _SOA and length >= 20:
            minimum = int.from_bytes(self._data[end - 4 : end], "big")
            self.negative_ttl = min(ttl, minimum)
        self._at = end

    def _content(self, kind: int, end: int) -> str | None:
        raw = self._data[self._at : end]
        if kind in _ADDRESS_BYTES:
            return str(ipaddress.ip_address(raw)) if len(raw) == _ADDRESS_BYTES[kind] else None
        return self._name() if kind in (_CNAME, _DNAME) else None

    def _number(self, width: int) -> int:
        if self._at + width > len(self._data):
            raise _CutError
        self._at += width
        return int.from_bytes(self._data[self._at - width : self._at], "big")

    def _name(self) -> str:
        """Read a name, and go on behind it; after a pointer that is behind the pointer."""
        labels, at, behind, lowest, size = [], self._at, None, self._at, 0
        for _ in range(_MAX_NAME + _MAX_JUMPS):
            if at >= len(self._data):
                raise _CutError
            first = self._data[at]
            if first & _POINTER == _POINTER:
                if at + 2 > len(self._data):
                    raise _CutError
                behind = at + 2 if behind is None else behind
                at = int.from_bytes(self._data[at : at + 2], "big") & 0x3FFF
                if not _HEADER <= at < lowest:
                    raise _CutError  # a loop, or into the header
                lowest = at
                continue
            if first & _POINTER != _LABEL:
                raise _CutError
            at += 1
            if first == 0:
                break
            label = self._data[at : at + first]
            at, size = at + first, size + first + 1
            if len(label) < first or size >= _MAX_NAME:
                raise _CutError
            labels.append(_escaped(label))
        self._at = at if behind is None else behind
        return ".".join(labels) or "."


def _escaped(label: bytes) -> str:
    r"""Return a label as text, what is special or not printable as `\.` or `\032` (RFC 4343 section 2.1)."""
    return "".join(_TEXT[byte] for byte in label)


def _letter(byte: int) -> str:
    if chr(byte) in '.\\"();@$':
        return f"\\{chr(byte)}"
    return chr(byte).lower() if 0x20 < byte < 0x7F else f"\\{byte:03d}"


_TEXT = tuple(_letter(byte) for byte in range(256))
