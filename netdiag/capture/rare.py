# SPDX-License-Identifier: Apache-2.0
"""The rare shapes of packets, one by one: what lies before IP, tunnels, extension headers, fragments. Pure, bounded."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ETHERNET_IP", "Fragments", "behind_log", "inside", "link_payload", "skip_extensions"]

ETHERNET_IP = 1
"""In place of an EtherType: an IP packet of either version begins here."""

_IP4, _IP6, _MPLS, _MPLS_MULTI, _PPPOE, _TEB, _PPP_KIND = 0x0800, 0x86DD, 0x8847, 0x8848, 0x8864, 0x6558, 0x880B
_VLAN = (0x8100, 0x88A8, 0x9100)
_MAX_LABELS, _MAX_LAYERS, _MAX_EXTENSIONS = 8, 6, 8
_SNAP = b"\xaa\xaa\x03\x00\x00\x00"
_LARGEST_LENGTH = 0x05DC
"""An EtherType up to this is the length of an 802.3 frame."""
_VXLAN, _VXLAN_GPE, _GENEVE = (4789, 8472), 4790, 6081
_GRE, _IP_IN_IP, _IP6_IN_IP = 47, 4, 41
_FRAGMENT, _AUTHENTICATION = 44, 51
_SKIPPED = (0, 43, 60, 135)
_NOTHING = 59
_LOGGED, _MAX_MEMBERS = 9, 32
"""NFULA_PAYLOAD of an NFLOG packet; how many members may stand before it."""
_FRAGMENT_MARK = 1 << 20


def link_payload(raw: bytes, at: int, end: int, kind: int) -> int:
    """Return where an IP packet begins behind VLAN tags, MPLS labels, PPPoE, LLC and Ethernet in them; -1 for none."""
    for _ in range(_MAX_LAYERS):
        if kind in (_IP4, _IP6, ETHERNET_IP):
            return at if _is_ip(raw, at, end) else -1
        if kind in _VLAN and at + 4 <= end:
            kind, at = _two(raw, at + 2), at + 4
        elif kind in (_MPLS, _MPLS_MULTI):
            return _behind_labels(raw, at, end)
        elif kind == _PPPOE and at + 8 <= end:
            kind, at = {0x0021: _IP4, 0x0057: _IP6}.get(_two(raw, at + 6), 0), at + 8
        elif 0 < kind <= _LARGEST_LENGTH and raw[at : at + 6] == _SNAP and at + 8 <= end:
            kind, at = _two(raw, at + 6), at + 8
        elif kind == _TEB and at + 14 <= end:
            kind, at = _two(raw, at + 12), at + 14
        else:
            return -1
    return -1


def _is_ip(raw: bytes, at: int, end: int) -> bool:
    return at < end and raw[at] >> 4 in (4, 6)


def _behind_labels(raw: bytes, at: int, end: int) -> int:
    for _ in range(_MAX_LABELS):
        if at + 4 > end:
            return -1
        last = raw[at + 2] & 1
        at += 4
        if last:
            if _is_ip(raw, at, end):
                return at
            # a pseudowire: a control word, which begins with four zero bits, then Ethernet
            begins = at + 4 if at < end and raw[at] >> 4 == 0 else at
            return link_payload(raw, begins, end, _TEB)
    return -1


def behind_log(raw: bytes, at: int, end: int) -> int:
    """Return where an IP packet begins that Linux's firewall logged (NFLOG); -1 for none.

    Behind four bytes come members with length and type in the byte order of the machine that captured.
    """
    at += 4
    for _ in range(_MAX_MEMBERS):
        if at + 4 > end:
            return -1
        size, kind = int.from_bytes(raw[at : at + 2], "little"), raw[at + 2] | raw[at + 3]
        if size > end - at:
            size = _two(raw, at)
        if size < 4:
            return -1
        if kind == _LOGGED:
            return at + 4 if _is_ip(raw, at + 4, end) else -1
        at += (size + 3) // 4 * 4
    return -1


def inside(raw: bytes, protocol: int, at: int, end: int) -> tuple[str | None, int]:
    """Return the kind of tunnel and where the IP packet in it begins; None where it is no tunnel that holds one."""
    if protocol in (_IP_IN_IP, _IP6_IN_IP):
        return _named("ipip" if protocol == _IP_IN_IP else "6in4", raw, at, end, ETHERNET_IP)
    if protocol == _GRE:
        return _gre(raw, at, end)
    port, at = _two(raw, at + 2), at + 8
    if port in _VXLAN and at + 8 <= end and raw[at] & 0x08:
        return _named("vxlan", raw, at + 8, end, _TEB)
    if port == _VXLAN_GPE and at + 8 <= end and raw[at] & 0x0C == 0x0C:
        return _named("vxlan", raw, at + 8, end, {1: _IP4, 2: _IP6, 3: _TEB}.get(raw[at + 3], 0))
    if port == _GENEVE and at + 8 <= end and raw[at] >> 6 == 0:
        return _named("geneve", raw, at + 8 + (raw[at] & 0x3F) * 4, end, _two(raw, at + 2))
    return None, -1


def _gre(raw: bytes, at: int, end: int) -> tuple[str | None, int]:
    if at + 4 > end:
        return None, -1
    flags, kind = _two(raw, at), _two(raw, at + 2)
    version = flags & 7
    at += 4 + 4 * bool(flags & 0x8000 or flags & 0x4000) + 4 * bool(flags & 0x2000) + 4 * bool(flags & 0x1000)
    if version == 1 and kind == _PPP_KIND:  # PPTP: a payload length in the key's place, perhaps an acknowledgement
        at += 4 * bool(flags & 0x0080)
        at += 2 if raw[at : at + 2] == b"\xff\x03" else 0
        kind, at = (_IP4, at + 1) if raw[at : at + 1] == b"\x21" else (_two(raw, at), at + 2)
        kind = {0x0021: _IP4, 0x0057: _IP6}.get(kind, kind)
    return _named("gre", raw, at, end, kind)


def _named(name: str, raw: bytes, at: int, end: int, kind: int) -> tuple[str | None, int]:
    where = link_payload(raw, at, end, kind) if at < end else -1
    return (name, where) if where >= 0 else (None, -1)


def skip_extensions(raw: bytes, protocol: int, at: int, end: int) -> tuple[int, int, int, int]:
    """Return protocol, place, identification and fragment mark (as `Fragments` takes it) behind IPv6 extensions.

    The protocol is 59 (nothing) where they do not fit the packet.
    """
    number = fragment = 0
    for _ in range(_MAX_EXTENSIONS):
        if protocol in _SKIPPED and at + 2 <= end:
            protocol, at = raw[at], at + (raw[at + 1] + 1) * 8
        elif protocol == _AUTHENTICATION and at + 2 <= end:
            protocol, at = raw[at], at + (raw[at + 1] + 2) * 4
        elif protocol == _FRAGMENT and at + 8 <= end and not fragment:
            word = _two(raw, at + 2)
            number = int.from_bytes(raw[at + 4 : at + 8], "big")
            if word & 0xFFF9:
                fragment = _FRAGMENT_MARK | (word >> 3) << 4 | word & 1
            protocol, at = raw[at], at + 8
            if fragment:
                return protocol, at, number, fragment
        elif protocol in (*_SKIPPED, _AUTHENTICATION, _FRAGMENT):
            return _NOTHING, end, 0, 0
        else:
            return protocol, at, number, fragment
    return _NOTHING, end, 0, 0


def _two(raw: bytes, at: int) -> int:
    return int.from_bytes(raw[at : at + 2], "big")


@dataclass(slots=True)
class _Waiting:
    since_ns: int
    parts: dict[int, bytes] = field(default_factory=dict)
    size: int | None = None
    """Of the whole, once the last fragment came."""
    held: int = 0


class Fragments:
    """Puts IP fragments together, as many as a few megabytes hold."""

    _MOST = 512
    _LARGEST = 1 << 16
    _LONGEST_NS = 30_000_000_000

    def __init__(self) -> None:
        self._waiting: dict[tuple[bytes, int, int], _Waiting] = {}
        self.lost = 0
        """Packets that never were whole."""

    def add(self, key: tuple[bytes, int, int], mark: int, data: bytes, passed: int, now_ns: int) -> bytes | None:
        """Take a fragment; return the whole payload once its last part is here.

        A fragment that the file holds in part only is filled up with nothing: the payload ends there.
        """
        offset, more = (mark >> 4 & 0x1FFF) * 8, mark & 1
        one = self._waiting.get(key)
        if one is not None and now_ns - one.since_ns > self._LONGEST_NS:
            del self._waiting[key]
            self.lost += 1
            one = None
        if one is None:
            if len(self._waiting) >= self._MOST:
                self._waiting.pop(next(iter(self._waiting)))
                self.lost += 1
            one = self._waiting[key] = _Waiting(since_ns=now_ns)
        if offset + len(data) > self._LARGEST or one.held > self._LARGEST:
            return None
        if offset not in one.parts:
            one.parts[offset] = data
            one.held += len(data)
        if not more:
            one.size = offset + passed
        return self._whole(key, one)

    def _whole(self, key: tuple[bytes, int, int], one: _Waiting) -> bytes | None:
        if one.size is None or one.held < one.size:
            return None
        whole = bytearray()
        for offset in sorted(one.parts):
            if offset > len(whole):
                return None
            whole[offset : offset + len(one.parts[offset])] = one.parts[offset]
        del self._waiting[key]
        return bytes(whole[: one.size])
