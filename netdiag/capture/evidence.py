# SPDX-License-Identifier: Apache-2.0
"""The packets behind findings as a pcapng file for other tools: comments say whose they are and what was found."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netdiag import __version__
from netdiag.addresses import from_text
from netdiag.text import safe

__all__ = ["Evidence", "pcapng", "select"]

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_RAW_IP = 101
_COMMENT, _APPLICATION, _RESOLUTION, _NAME = 1, 4, 9, 2
_MAX_PACKET = 1 << 16
_MAX_COMMENT = 512
_MAPPED = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One packet for the file."""

    at_ns: int
    """Since 1970."""
    length: int
    """Bytes that passed."""
    data: bytes
    """What is kept of it, from its IP header on."""
    comment: str | None


def select(facts: Iterable[Mapping[str, Any]], clock: Mapping[str, Any], document: Mapping[str, Any]) -> list[Evidence]:
    """Return the packets of the connections that findings name, in order of time.

    `facts` are those of kind `packet`, `clock` is the header's, `document` what was found.
    """
    said = _said(document)
    shift = int(clock["realtime_ns"]) - int(clock["monotonic_ns"])
    found, seen = [], set()
    for fact in sorted((fact for fact in facts if type(fact.get("at_ns")) is int), key=lambda fact: int(fact["at_ns"])):
        data = _data(fact)
        ends = _ends(data) if data else None
        if data is None or ends not in said:
            continue
        comment = None if ends in seen else said[ends]
        seen.add(ends)
        length = fact.get("length")
        whole = length if isinstance(length, int) and len(data) <= length < 1 << 24 else len(data)
        found.append(Evidence(at_ns=max(fact["at_ns"] + shift, 0), length=whole, data=data, comment=comment))
    return found


def _said(document: Mapping[str, Any]) -> dict[bytes, str]:
    """Return what is to be said of each connection that a finding names, by its ends."""
    connections = {one["id"]: one for one in document.get("connections", ())}
    owner = {"connection": {name: name for name in connections}}
    for kind in ("handshake", "request"):
        owner[kind] = {one["id"]: one["connection"] for one in document.get(f"{kind}s", ())}
    names = {process["pid"]: process.get("comm") or process.get("exe") for process in document.get("processes", ())}
    told: dict[str, list[str]] = {}
    for finding in document.get("findings", ()):
        for piece in finding["evidence"]:
            connection = owner.get(piece["kind"], {}).get(piece["id"])
            if connection is None or connection not in connections:
                continue
            lines = told.setdefault(connection, [])
            line = f"{finding['severity']} {finding['code']}: {finding['title']}"
            if line not in lines:
                lines.append(line)
    found = {}
    for identity, lines in told.items():
        one = connections[identity]
        key = _key_of(one)
        if key is not None:
            found[key] = "\n".join([_owner(one, names), *lines])
    return found


def _owner(one: Mapping[str, Any], names: Mapping[Any, Any]) -> str:
    who = one.get("comm") or names.get(one.get("pid")) or "unknown program"
    pid = f" (pid {one['pid']})" if one.get("pid") else ""
    remote = one["remote"]
    return f"{who}{pid} → {remote.get('name') or remote.get('ip')}:{remote.get('port')}, connection {one['id']}"


def _key_of(one: Mapping[str, Any]) -> bytes | None:
    try:
        ends = [from_text(one[side]["ip"]) + struct.pack(">H", one[side]["port"]) for side in ("local", "remote")]
    except (AttributeError, KeyError, TypeError, ValueError, struct.error):
        return None
    return b"".join(sorted(ends))


def _data(fact: Mapping[str, Any]) -> bytes | None:
    text = fact.get("data")
    if not isinstance(text, str) or len(text) > 2 * _MAX_PACKET:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _ends(data: bytes) -> bytes | None:
    """Return the two ends of a packet that begins with its IP header."""
    if data[0] >> 4 == 4 and len(data) >= 40:
        at, one, other = (data[0] & 15) * 4, _MAPPED + data[12:16], _MAPPED + data[16:20]
    elif data[0] >> 4 == 6 and len(data) >= 60:
        at, one, other = 40, data[8:24], data[24:40]
    else:
        return None
    ports = data[at : at + 4]
    return b"".join(sorted((one + ports[:2], other + ports[2:]))) if len(ports) == 4 else None


def pcapng(packets: Sequence[Evidence], *, comment: str) -> bytes:
    """Return the file; `comment` stands at its start."""
    about = _option(_COMMENT, comment) + _option(_APPLICATION, f"netdiag {__version__}") + bytes(4)
    interface = struct.pack("<HHI", _RAW_IP, 0, 0) + _option(_NAME, "any") + struct.pack("<HHBxxx", _RESOLUTION, 1, 9)
    parts = [
        _block(_SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + about),
        _block(_INTERFACE, interface + bytes(4)),
    ]
    for one in packets:
        head = struct.pack("<IIIII", 0, one.at_ns >> 32, one.at_ns & 0xFFFFFFFF, len(one.data), one.length)
        options = _option(_COMMENT, one.comment) + bytes(4) if one.comment else b""
        parts.append(_block(_PACKET, head + one.data + bytes(-len(one.data) % 4) + options))
    return b"".join(parts)


def _option(code: int, text: str) -> bytes:
    """Return an option with text: names come from whoever made them, so nothing in it is obeyed by a terminal."""
    lines = "\n".join(safe(line) for line in text.split("\n"))
    data = lines.encode()[:_MAX_COMMENT].decode(errors="ignore").encode()
    return struct.pack("<HH", code, len(data)) + data + bytes(-len(data) % 4)


def _block(kind: int, body: bytes) -> bytes:
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)
