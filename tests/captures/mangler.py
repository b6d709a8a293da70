# SPDX-License-Identifier: Apache-2.0
"""Captures as networks, machines and people spoil them, the same for the same seed. Ethernet, IPv4, TCP in pcap."""

from __future__ import annotations

import gzip
import lzma
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

__all__ = ["WAYS", "Mangled", "Packet", "load", "mangle", "pcap", "pcapng"]

_ETHERNET, _RAW, _SLL, _SLL2, _NULL, _NFLOG = 1, 101, 113, 276, 0, 239
_PREFIX = bytes.fromhex("20010db8000000000000ffff")
"""Before the addresses of what is turned into IPv6."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet: nanoseconds, bytes that are there, bytes that passed."""

    at_ns: int
    data: bytes
    passed: int

    @property
    def transport(self) -> int:
        """Where TCP begins."""
        return 14 + (self.data[14] & 15) * 4

    @property
    def payload(self) -> int:
        """Where the payload begins."""
        return self.transport + (self.data[self.transport + 12] >> 4) * 4

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return int.from_bytes(self.data[16:18], "big") - (self.payload - 14)

    @property
    def ends(self) -> tuple[int, int]:
        """Source and destination port."""
        source, destination = struct.unpack_from(">HH", self.data, self.transport)
        return source, destination

    @property
    def sequence(self) -> int:
        """The number of its first byte."""
        return int.from_bytes(self.data[self.transport + 4 : self.transport + 8], "big")

    @property
    def flags(self) -> int:
        """FIN 1, SYN 2, RST 4, PSH 8, ACK 16."""
        return self.data[self.transport + 13]


@dataclass(slots=True)
class Mangled:
    """The bytes of a file, and what about it is no longer as it was."""

    content: bytes
    whole: bool
    """Everything that passed can still be known."""
    resent: dict[tuple[int, int], int] = field(default_factory=dict)
    """Segments that were sent again, by source and destination port; the copies that were added, to begin with."""
    twice: bool = False
    """Packets are in it twice."""
    doubtful: bool = False
    """Whether something was sent again or only came out of order cannot be told."""


def load(path: Path) -> list[Packet]:
    """Read a pcap file with microseconds or nanoseconds."""
    data = path.read_bytes()
    scale = 1 if data[:4] == b"\x4d\x3c\xb2\xa1" else 1000
    found, at = [], 24
    while at + 16 <= len(data):
        seconds, part, held, passed = struct.unpack_from("<IIII", data, at)
        found.append(Packet(seconds * 1_000_000_000 + part * scale, data[at + 16 : at + 16 + held], passed))
        at += 16 + held
    return found


def pcap(packets: Sequence[Packet], link: int = _ETHERNET) -> bytes:
    """Return a pcap file with nanoseconds."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link)]
    for one in packets:
        seconds, part = divmod(one.at_ns, 1_000_000_000)
        parts += [struct.pack("<IIII", seconds, part, len(one.data), one.passed), one.data]
    return b"".join(parts)


def pcapng(packets: Sequence[Packet], *, keys: bytes = b"", resolution: int = 9, link: int = _ETHERNET) -> bytes:
    """Return a pcapng file, with a key log in it."""
    blocks = [_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    blocks.append(_block(1, struct.pack("<HHI", link, 0, 0) + struct.pack("<HHBxxxHH", 9, 1, resolution, 0, 0)))
    if keys:
        blocks.append(_block(10, struct.pack("<II", 0x544C534B, len(keys)) + keys + bytes(-len(keys) % 4)))
    for one in packets:
        units = one.at_ns // 10 ** (9 - resolution)
        head = struct.pack("<IIIII", 0, units >> 32, units & 0xFFFFFFFF, len(one.data), one.passed)
        blocks.append(_block(6, head + one.data + bytes(-len(one.data) % 4)))
    return b"".join(blocks)


def _block(kind: int, body: bytes) -> bytes:
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


Way = Callable[[list[Packet], random.Random, bytes], Mangled]


def _same(packets: list[Packet], _: random.Random, __: bytes) -> Mangled:
    return Mangled(pcap(packets), whole=True)


def _linked(link: int, head: bytes) -> Way:
    def way(packets: list[Packet], _: random.Random, __: bytes) -> Mangled:
        changed = [replace(p, data=head + p.data[14:], passed=p.passed - 14 + len(head)) for p in packets]
        return Mangled(pcap(changed, link), whole=True)

    return way


def _tagged(*tags: bytes) -> Way:
    def way(packets: list[Packet], _: random.Random, __: bytes) -> Mangled:
        middle = b"".join(tags)
        changed = [replace(p, data=p.data[:12] + middle + p.data[12:], passed=p.passed + len(middle)) for p in packets]
        return Mangled(pcap(changed), whole=True)

    return way


def _logged(packets: list[Packet], _: random.Random, __: bytes) -> Mangled:
    """As Linux's firewall hands packets on (NFLOG)."""
    heads = [struct.pack("<BBHHHIHH", 2, 0, 0, 8, 1, 0, p.passed - 14 + 4, 9) for p in packets]
    changed = [
        replace(p, data=head + p.data[14:], passed=p.passed - 14 + len(head))
        for p, head in zip(packets, heads, strict=True)
    ]
    return Mangled(pcap(changed, _NFLOG), whole=True)


def _sixth(packets: list[Packet], _: random.Random, __: bytes) -> Mangled:
    """The same over IPv6, which numbers no packets."""
    changed = []
    for p in packets:
        segment = p.data[p.transport : p.payload + p.size]
        ends = _PREFIX + p.data[26:30] + _PREFIX + p.data[30:34]
        data = p.data[:12] + b"\x86\xdd" + struct.pack(">IHBB", 6 << 28, len(segment), 6, 64) + ends + segment
        changed.append(replace(p, data=data, passed=len(data)))
    return Mangled(pcap(changed), whole=True)


def _tunnelled(packets: list[Packet], _: random.Random, __: bytes) -> Mangled:
    """In VXLAN, as between machines of a cloud."""
    changed = []
    for p in packets:
        size = 36 + len(p.data)
        outer = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, 17, 0, bytes([10, 9, 9, 1]), bytes([10, 9, 9, 2]))
        outer += struct.pack(">HHHHII", 5555, 4789, size - 20, 0, 8 << 24, 1 << 8)
        changed.append(replace(p, data=p.data[:14] + outer + p.data, passed=p.passed + 14 + len(outer)))
    return Mangled(pcap(changed), whole=True)


def _packed(pack: Callable[[bytes], bytes]) -> Way:
    def way(packets: list[Packet], _: random.Random, __: bytes) -> Mangled:
        return Mangled(pack(pcap(packets)), whole=True)

    return way


def _next_generation(packets: list[Packet], draw: random.Random, keys: bytes) -> Mangled:
    return Mangled(pcapng(packets, keys=keys, resolution=draw.choice((6, 9))), whole=True)


def _twice(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    """Captured at two places."""
    more = [replace(p, at_ns=p.at_ns + draw.randrange(1000, 30_000)) for p in packets]
    return Mangled(pcap(_sorted([*packets, *more])), whole=True, twice=True)


def _resent(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    """Sent again though it had arrived: seen where it was sent."""
    added, counts = [], dict[tuple[int, int], int]()
    full = [p for p in packets if p.size > 1 and not p.flags & 7]
    for one in draw.sample(full, min(len(full), draw.randrange(1, 6))):
        later = max(p.at_ns for p in packets if p.ends in (one.ends, one.ends[::-1]))
        at_ns = min(one.at_ns + draw.randrange(30_000_000, 250_000_000), later - 1)
        added.append(replace(_numbered(one, draw), at_ns=at_ns))
        if added[-1].at_ns <= one.at_ns + 5_000_000:
            added.pop()  # the connection was over too soon for that
            continue
        counts[one.ends] = counts.get(one.ends, 0) + 1
    return Mangled(pcap(_sorted([*packets, *added])), whole=True, resent=counts)


def _numbered(one: Packet, draw: random.Random) -> Packet:
    """Give a packet another IP identification, as a segment that is sent again has."""
    number = draw.randrange(1 << 16).to_bytes(2, "big")
    head = bytearray(one.data[14 : one.transport])
    head[4:6] = number
    head[10:12] = b"\0\0"
    total = sum(int.from_bytes(head[at : at + 2], "big") for at in range(0, len(head), 2))
    total = (total & 0xFFFF) + (total >> 16)
    head[10:12] = (~((total & 0xFFFF) + (total >> 16)) & 0xFFFF).to_bytes(2, "big")
    return replace(one, data=one.data[:14] + bytes(head) + one.data[one.transport :])


def _late(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    """Lost before the place of the capture, and seen when it was sent again: behind others of its flight."""
    order = list(packets)
    for one in draw.sample(packets, len(packets))[: max(4, len(packets) // 8)]:
        if one.size <= 1 or one.flags & 7:
            continue
        at = order.index(one)
        until = next((n for n in range(at + 1, len(order)) if _covers(order[n], one)), len(order))
        flight = [
            n for n in range(at + 1, until) if order[n].ends == one.ends and order[n].size and not order[n].flags & 7
        ]
        if flight:
            order.insert(flight[-1] + 1, replace(_numbered(one, draw), at_ns=order[flight[-1]].at_ns))
            del order[at]
    return Mangled(pcap(order), whole=True, doubtful=True)


def _covers(other: Packet, one: Packet) -> bool:
    """Tell whether a packet shows that another one had arrived."""
    if other.ends != one.ends[::-1]:
        return False
    number = int.from_bytes(other.data[other.transport + 8 : other.transport + 12], "big")
    return bool(other.flags & 16) and (number - one.sequence) % (1 << 32) < 1 << 31 and number != one.sequence


def _reordered(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    """Packets of one sender overtake each other; stamps stay in order."""
    order = list(packets)
    for at in draw.sample(range(len(order) - 1), len(order) // 3):
        one, other = order[at], order[at + 1]
        if one.ends == other.ends and not (one.flags | other.flags) & 7:
            order[at], order[at + 1] = replace(other, at_ns=one.at_ns), replace(one, at_ns=other.at_ns)
    return Mangled(pcap(order), whole=True, doubtful=True)


def _crossed(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    """Packets of both sides change places, as captures of several queues have them: an answer before its question."""
    order = list(packets)
    for at in draw.sample(range(len(order) - 1), max(1, len(order) // 12)):
        one, other = order[at], order[at + 1]
        order[at], order[at + 1] = replace(other, at_ns=one.at_ns), replace(one, at_ns=other.at_ns)
    return Mangled(pcap(order), whole=False, doubtful=True)


def _set_back(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    """The clock is set back once, in the middle."""
    at, by = draw.randrange(len(packets)), draw.randrange(1_000_000, 3_000_000_000)
    return Mangled(pcap([replace(p, at_ns=p.at_ns - by) if n >= at else p for n, p in enumerate(packets)]), whole=True,
                   doubtful=True)  # fmt: skip


def _joined(packets: list[Packet], _: random.Random, __: bytes) -> Mangled:
    """Segments as a network card joins them: neighbours that follow on become one."""
    found: list[Packet] = []
    for one in packets:
        last = found[-1] if found else None
        if (
            last is not None and last.ends == one.ends and one.size and last.size and not (one.flags | last.flags) & 7
            and last.sequence + last.size == one.sequence and last.size + one.size < 60_000
        ):  # fmt: skip
            data = bytearray(last.data[: last.payload + last.size] + one.data[one.payload : one.payload + one.size])
            data[16:18] = (len(data) - 14).to_bytes(2, "big")
            found[-1] = replace(last, data=bytes(data), passed=len(data))
        else:
            found.append(one)
    return Mangled(pcap(found), whole=True, doubtful=True)


def _missing(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    """The machine that captured was too slow."""
    share = draw.choice((0.01, 0.05, 0.2))
    return Mangled(pcap([p for p in packets if draw.random() >= share]), whole=False, doubtful=True)


def _snapped(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    size = draw.choice((68, 96, 128, 200, 400))
    return Mangled(pcap([replace(p, data=p.data[:size]) for p in packets]), whole=False)


def _begun_late(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    return Mangled(pcap(packets[draw.randrange(1, max(2, len(packets) // 2)) :]), whole=False, doubtful=True)


def _ended_early(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    return Mangled(pcap(packets[: draw.randrange(len(packets) // 2, len(packets))]), whole=False)


def _one_sided(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    up = draw.random() < 0.5
    return Mangled(pcap([p for p in packets if (p.ends[0] > p.ends[1]) == up]), whole=False, doubtful=True)


def _broken_off(packets: list[Packet], draw: random.Random, _: bytes) -> Mangled:
    content = pcap(packets)
    return Mangled(content[: draw.randrange(len(content) // 3, len(content))], whole=False)


def _sorted(packets: Sequence[Packet]) -> list[Packet]:
    return sorted(packets, key=lambda one: one.at_ns)


_VLAN, _QINQ = b"\x81\x00\x00\x05", b"\x88\xa8\x00\x09"
WAYS: dict[str, Way] = {
    "same": _same,
    "raw": _linked(_RAW, b""),
    "cooked": _linked(_SLL, bytes.fromhex("00000304000600000000000000000800")),
    "cooked2": _linked(_SLL2, bytes.fromhex("0800000000000001030400060000000000000000")),
    "null": _linked(_NULL, struct.pack("<I", 2)),
    "vlan": _tagged(_VLAN),
    "qinq": _tagged(_QINQ, _VLAN),
    "nflog": _logged,
    "ipv6": _sixth,
    "vxlan": _tunnelled,
    "gzip": _packed(gzip.compress),
    "xz": _packed(lzma.compress),
    "pcapng": _next_generation,
    "twice": _twice,
    "resent": _resent,
    "late": _late,
    "reordered": _reordered,
    "crossed": _crossed,
    "set-back": _set_back,
    "joined": _joined,
    "missing": _missing,
    "snapped": _snapped,
    "begun-late": _begun_late,
    "ended-early": _ended_early,
    "one-sided": _one_sided,
    "broken-off": _broken_off,
}


def mangle(packets: list[Packet], way: str, seed: int, keys: bytes = b"") -> Mangled:
    """Return the file that this way and seed make of a capture."""
    return WAYS[way](packets, random.Random(f"{way}-{seed}"), keys)
