# SPDX-License-Identifier: Apache-2.0
"""A copy of a recording to pass on: times, sizes and outcomes stay, hosts, paths and arguments do not.

What is not known to be harmless is left out: text and opaque bytes of records other than a program's short name, facts
of unknown kind, members of facts that nobody listed here. Addresses and the names in TLS hellos become others, the same
one always the same one, so that the analyses find what they found before.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netdiag.decode import tls
from netdiag.recording.format import RING_HEADER_BYTES, FieldKind, StreamLayout
from netdiag.recording.reader import Recording, Records, dtype_of
from netdiag.recording.writer import RecordingWriter
from netdiag.tables.hellos import chain_of

__all__ = ["scrub"]

_KEPT_TEXT = frozenset({"comm"})
_MAPPED = bytes(10) + b"\xff\xff"
_LOOPBACK = (_MAPPED + b"\x7f", bytes(15) + b"\x01")
_PATH = re.compile(r"/\S+")
_HOST = ("kernel", "arch", "btf", "cpus", "hz")


def scrub(recording: Recording, fd: int) -> None:
    """Write the scrubbed copy of `recording` to an empty file; OSError where it cannot be written."""
    writer = RecordingWriter(fd, _header(recording.header))
    addresses = _Addresses()
    names = _Names()
    for layout in recording.layouts.values():
        writer.layout(layout.stream, layout)
    for fact in recording.facts:
        kept = names.hello if fact["kind"] == "hello" else _FACTS.get(fact["kind"])
        if kept is not None:
            writer.fact(fact["kind"], {name: value for name, value in kept(fact).items() if name != "kind"})
    for name, layout in recording.layouts.items():
        for run in recording.runs.get(name, []):
            if len(run):
                writer.records(layout.stream, [_records(run, layout, addresses)])
    if recording.end is not None:
        writer.end(str(recording.end.get("exit_reason")), int(recording.end["at_ns"]))


# --- records ------------------------------------------------------------------------------------------------------


class _Addresses:
    """Other addresses for those that were recorded: 198.18.0.0/15 and 2001:db8::/32, numbered as they come."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def __getitem__(self, raw: bytes) -> bytes:
        if not any(raw) or raw.startswith(_LOOPBACK):
            return raw
        if raw not in self._known:
            number = len(self._known) + 1
            v4 = struct.pack(">I", 0xC6120000 + number % 0x20000)
            v6 = bytes.fromhex("20010db8") + bytes(8) + struct.pack(">I", number)
            self._known[raw] = _MAPPED + v4 if raw.startswith(_MAPPED) else v6
        return self._known[raw]

    def replace(self, column: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a column of 16-byte addresses with the others in their place."""
        found, places = np.unique(column, axis=0, return_inverse=True)
        others = [np.frombuffer(self[row.tobytes()], np.uint8) for row in found]
        return np.stack(others)[places.reshape(-1)]


def _records(run: Records, layout: StreamLayout, addresses: _Addresses) -> bytes:
    """Return whole records as the ring has them, with only the members that are known to be harmless."""
    buffer = bytearray(layout.stride * len(run))
    copy = np.frombuffer(buffer, dtype_of(layout))
    if layout.offset >= RING_HEADER_BYTES:
        lengths = np.ndarray(
            len(run), "<u4", buffer, offset=layout.offset - RING_HEADER_BYTES, strides=(layout.stride,)
        )
        lengths[:] = layout.size
    for member in layout.fields:
        if member.kind in {FieldKind.UINT, FieldKind.INT} or member.name in _KEPT_TEXT:
            copy[member.name] = run[member.name]
        elif member.type == "nd_addr":
            copy[member.name] = addresses.replace(run[member.name])
    return bytes(buffer)


# --- names in hellos ----------------------------------------------------------------------------------------------


class _Names:
    """Other names for the servers that clients asked for, as long as the real ones: all lengths stay true."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def hello(self, fact: Mapping[str, Any]) -> dict[str, Any]:
        """Return what stays of one direction's handshake messages; a text that can't be searched for names goes."""
        kept = {name: fact.get(name) for name in ("cookie", "direction", "at_ns", "whole", "session")}
        kept |= {name: fact[name] for name in ("id", "same") if isinstance(fact.get(name), int)}
        if (chain := fact.get("chain")) is not None and chain_of(chain) is not None:
            kept["chain"] = chain  # sizes, and numbers instead of names
        data = self._renamed(fact.get("data"))
        if data is not None:
            kept["data"] = data
        return kept

    def _renamed(self, packed: Any) -> str | None:
        try:
            data = zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), _MAX_HELLO)
        except (binascii.Error, zlib.error, TypeError, ValueError):
            return None
        messages = tls.read(data)
        data = data[: messages.cut_at]  # what could not be read could hold anything
        for hello in messages.client_hellos:
            if hello.sni is None and not hello.cut:
                continue
            name = (hello.sni or "").encode("ascii")
            place = _extension(name)
            if not name or data.count(place) == 0:  # part of a name may be there, or more than one
                return None
            data = data.replace(place, _extension(self[name]))
        return base64.b64encode(zlib.compress(data, 6)).decode("ascii")

    def __getitem__(self, name: bytes) -> bytes:
        if name not in self._known:
            other = f"h{len(self._known) + 1}".encode("ascii")
            ending = b".invalid" if len(other) + len(b".invalid") <= len(name) else b""
            self._known[name] = (other.ljust(len(name) - len(ending), b"x") + ending)[: len(name)]
        return self._known[name]


_MAX_HELLO = 1 << 16


def _extension(name: bytes) -> bytes:
    """Return the extension server_name (RFC 6066 section 3) with that one name, as clients send it."""
    entry = b"\0" + struct.pack(">H", len(name)) + name
    return struct.pack(">HHH", 0, len(entry) + 2, len(entry)) + entry


# --- header and facts ---------------------------------------------------------------------------------------------


def _header(header: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: header.get(name) for name in ("version", "started", "clock", "tier")}
    host, command = header.get("host"), header.get("command")
    kept["host"] = {name: host.get(name) for name in _HOST} if isinstance(host, Mapping) else None
    kept["command"] = {"argv": _program(command.get("argv"))} if isinstance(command, Mapping) else None
    return {**kept, "target": {}}


def _program(argv: Any) -> list[str]:
    return [_base(argv[0])] if isinstance(argv, list) and argv and isinstance(argv[0], str) else []


def _base(path: Any) -> Any:
    return path.rsplit("/", 1)[-1] if isinstance(path, str) else None


def _as_it_is(fact: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a fact, and the names of probes and programs."""
    return {
        name: value
        for name, value in fact.items()
        if isinstance(value, int | float) or name in {"probe", "programs"} or value is None
    }


def _process(fact: Mapping[str, Any]) -> dict[str, Any]:
    libraries = fact.get("libraries")
    names = [{name: library.get(name) for name in ("name", "version")} for library in _tables(libraries)]
    numbers = {name: fact.get(name) for name in ("pid", "ppid", "started_ns")}
    return {**numbers, "exe": _base(fact.get("exe")), "comm": fact.get("comm"), "libraries": names}


def _command(fact: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name: fact.get(name) for name in ("pid", "exit_status", "armed_ns")}
    return {**numbers, "argv": _program(fact.get("argv"))}


def _coverage(fact: Mapping[str, Any]) -> dict[str, Any]:
    lists = {
        "probes": ("name", "state", "reason", "remedy"),
        "tls_libraries": ("pid", "library", "version", "how"),
        "unobservable": ("pid", "what", "why"),
    }
    return {
        key: [{name: _without_paths(entry.get(name)) for name in names} for entry in _tables(fact.get(key))]
        for key, names in lists.items()
    }


def _conversation(fact: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a conversation belongs; what was asked for stands in texts, which go."""
    names = ("conversation", "pid", "cookie", "library", "how", "confidence", "mixed", "whole", "server", "protocol")
    return {name: fact.get(name) for name in names}


def _tls_library(fact: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fact.get(name) for name in ("pid", "library", "version", "how", "cheap")}


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _without_paths(value: Any) -> Any:
    return _PATH.sub("/…", value) if isinstance(value, str) else value if isinstance(value, int | float) else None


_FACTS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "clock": _as_it_is,
    "cost": _as_it_is,
    "loss": _as_it_is,
    "listener_overflow": _as_it_is,
    "process": _process,
    "command": _command,
    "coverage": _coverage,
    "tls_library": _tls_library,
    "conversation": _conversation,
    "http2": _as_it_is,
}
"""By kind: what is kept of a fact. Other kinds are dropped."""
