# SPDX-License-Identifier: Apache-2.0
"""The parsers of bytes that others wrote: what feeds each, what it may raise, and good inputs to begin with."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netdiag import btf, web
from netdiag.capture import read as read_capture
from netdiag.capture.inside import Inside
from netdiag.capture.keylog import KeyLog
from netdiag.decode import chain, dns, kept, quic, tls
from netdiag.decode.http import llm, masking, scan
from netdiag.decode.http.conversation import Conversation
from netdiag.decode.http.events import Events
from netdiag.decode.http.hpack_table import HeaderDecoder
from netdiag.decode.piece import Direction, Piece
from netdiag.errors import InputUnreadable
from netdiag.instructions import NotCodeError, instructions
from netdiag.recorder import golang, packets
from netdiag.recorder.hello import Hellos
from netdiag.recording import reader
from netdiag.recording.pieces import Frames, records
from netdiag.route import replay
from netdiag.route.engine import errqueue, parse
from netdiag.symbols import BadObjectError, Elf
from netdiag.weights import headers
from tests.fakes import handshake, http_traffic
from tests.fakes import packets as frames
from tests.fakes.quic_session import shake
from tests.unit.decode.http.test_conversation_mangled import TALKS

__all__ = ["TARGETS", "Target"]

CAPTURES = Path(__file__).resolve().parents[2] / "tests" / "captures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parser."""

    feed: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...] = ()
    """What it may raise; anything else is a fault."""
    seeds: Callable[[], Sequence[bytes]]
    longest: int = 4096
    """Bytes of an input: more of them tell nothing new, and take longer."""

    def one(self, data: bytes) -> None:
        """Feed one input. Raises what is a fault."""
        try:
            self.feed(data)
        except self.refuses:
            return


class _Nowhere:
    """Stands for a recording's writer."""

    def fact(self, *_: Any) -> None:
        """Take a fact."""


def _conversation(data: bytes, *, role: str | None, joined: bool) -> None:
    """Bytes of both directions in turn; each run begins with direction and length."""
    talk = Conversation(role=role, joined=joined)  # type: ignore[arg-type]
    at, now, offsets = 0, 1, {"send": 0, "receive": 0}
    while at + 3 <= len(data) and now < 64:
        way: Direction = "send" if data[at] & 1 else "receive"
        size, missing = int.from_bytes(data[at + 1 : at + 3], "little"), data[at] >> 4
        body = data[at + 3 : at + 3 + size]
        at += 3 + size
        piece = Piece(at_ns=now, direction=way, offset=offsets[way], length=len(body) + missing, data=body, tail=b"")
        offsets[way] += piece.length
        now += 1
        if piece.length:
            talk.feed(piece)
    talk.end(now, clean=None)


def _talks() -> list[bytes]:
    return [
        b"".join(
            bytes([int(client)]) + len(part).to_bytes(2, "little") + part
            for client, data in talk
            for part in (data[at : at + 60_000] for at in range(0, len(data), 60_000))
        )
        for talk in TALKS
    ]


def _bodies() -> list[bytes]:
    said = [b"".join(data for client, data in talk if client is side) for talk in TALKS for side in (True, False)]
    return [*said, http_traffic.sse("a", "b")]


def _events(data: bytes) -> None:
    facts = llm.AnswerFacts()
    for by_line in (False, True):
        events = Events(by_line=by_line)
        half = len(data) // 2
        for event in (*events.feed(data[:half]), *events.feed(data[half:]), *events.end()):
            llm.kind_of(event, facts)


def _masked(data: bytes) -> None:
    for clean in (masking.clean_path, masking.clean_host, masking.clean_model, masking.clean_method):
        clean(data)
    for shape in ("token", "number", "date", "id", "timing"):
        masking.clean_value(shape, data)
    list(scan.leaves(data))
    scan.top_of_tail(data)
    llm.read_request(data[:500], data[-500:])


def _hpack(data: bytes) -> None:
    decoder = HeaderDecoder()
    half = len(data) // 2
    decoder.decode(data[:half])
    decoder.decode(data[half:])


def _hellos(data: bytes) -> None:
    hellos = Hellos(_Nowhere())  # type: ignore[arg-type]
    at = 0
    while at + 2 <= len(data) and at < 4000:
        size = data[at + 1]
        hellos._add(1, 1 + data[at] % 2, at, at, data[at + 2 : at + 2 + size])  # noqa: SLF001 - a parser inside
        at += 2 + size
    hellos.flush(1 << 60)


def _quic(data: bytes) -> None:
    for packet in quic.packets(data):
        keys = quic.initial_keys(packet.destination, packet.version)
        if keys:
            quic.open_initial(packet, keys[0])
    quic._contents(0, data)  # noqa: SLF001 - what only a sender with the keys can say


def _file(data: bytes, look: Callable[[int], object]) -> None:
    """Some parsers read through a descriptor."""
    fd = os.memfd_create("fuzz")
    try:
        os.write(fd, data)
        look(fd)
    finally:
        os.close(fd)


def _elf(fd: int) -> None:
    elf = Elf(fd)
    elf.build_id()
    golang.functions(elf, ["crypto/tls.(*Conn).Read"])
    for name in (".gopclntab", ".rodata"):
        elf.section(name)


def _own_program() -> list[bytes]:
    return [Path("/bin/true").read_bytes()[:60_000]]


def _inside(data: bytes) -> None:
    inside = Inside()
    for kind in (4, 8, 11, 13):
        inside.message(kind, data, client=False)
        inside.message_12(kind, data)
    inside.fact(1)


def _wire(data: bytes) -> None:
    for version in (4, 6):
        parse.icmp(version, data)
        parse.quoted(version, data)
    parse.labels(data, 0)
    parse.segment(data)
    parse.strip_ipv4(data)
    errqueue._parse(data[64:], data[:64], [], 443)  # noqa: SLF001 - behind a socket


def _captures() -> list[bytes]:
    small = sorted(CAPTURES.glob("*.pcap"), key=lambda path: path.stat().st_size)[:6]
    talk = frames.http()
    return [*(path.read_bytes()[:20_000] for path in small), frames.pcap(talk.packets), frames.pcapng(talk.packets)]


def _keys(data: bytes) -> None:
    KeyLog().add(data)


def _web(data: bytes) -> None:
    web.origin(data.decode("utf-8", "replace"))


def _frames(data: bytes) -> None:
    cutter = Frames()
    for layout, body in cutter.feed(data):
        list(records(layout, body))


def _recording() -> list[bytes]:
    folder = Path(__file__).resolve().parents[2] / "tests" / "goldens"
    found = [path.read_bytes() for path in sorted(folder.rglob("*.netdiag"))[:3]]
    return found or [b"NETDIAG\0\1\0\0\0\0\0\0\0"]


def _hello_texts() -> list[bytes]:
    modern, flight = handshake.modern(psk=True, early=True), handshake.flight_12()
    return [modern, flight, handshake.server_hello_13(retry=True), handshake.record(modern)]


def _datagrams() -> list[bytes]:
    return [data for one in (shake(), shake(retry=True), shake(negotiate=True)) for _, _, data in one.datagrams[:4]]


QUERY = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03api\x07example\x03com\x00\x00\x1c\x00\x01"
ANSWER = (
    b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01"
    b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x7f\x00\x00\x01"
)
KEYS = b"CLIENT_RANDOM " + b"ab" * 32 + b" " + b"cd" * 48 + b"\n# comment\nCLIENT_HANDSHAKE_TRAFFIC_SECRET "
CODE = bytes.fromhex("b8c3c3c3c3488b442424c3f3c3554889e5")

TARGETS: dict[str, Target] = {
    "tls": Target(feed=tls.read, seeds=_hello_texts),
    "kept": Target(
        feed=lambda data: (kept.redact(data), kept.messages(data), kept.session_id(data)), seeds=_hello_texts
    ),
    "hellos": Target(feed=_hellos, seeds=_hello_texts),
    "chain": Target(feed=lambda data: chain.Names().chain(data), seeds=lambda: [handshake.certificates(3)]),
    "inside": Target(feed=_inside, seeds=_hello_texts),
    "quic": Target(feed=_quic, seeds=_datagrams),
    "dns": Target(feed=lambda data: (dns.read(data), dns.split(data)), seeds=lambda: [QUERY, ANSWER]),
    "http-client": Target(feed=functools.partial(_conversation, role="client", joined=False), seeds=_talks),
    "http-server": Target(feed=functools.partial(_conversation, role="server", joined=False), seeds=_talks),
    "http-joined": Target(feed=functools.partial(_conversation, role=None, joined=True), seeds=_talks),
    "events": Target(feed=_events, seeds=_bodies),
    "hpack": Target(feed=_hpack, seeds=lambda: [bytes.fromhex("828684410f7777772e6578616d706c652e636f6d")]),
    "masking": Target(feed=_masked, seeds=_bodies, longest=1024),
    "frames": Target(feed=_frames, refuses=(ValueError,), seeds=lambda: [b"\0" * 16]),
    "recording": Target(feed=reader.read, refuses=(InputUnreadable,), seeds=_recording, longest=16_384),
    "capture": Target(feed=read_capture, refuses=(InputUnreadable,), seeds=_captures, longest=16_384),
    "keylog": Target(feed=_keys, seeds=lambda: [KEYS]),
    "packets": Target(feed=packets.cut, seeds=lambda: [each[1][14:] for each in frames.http().packets]),
    "icmp": Target(feed=_wire, seeds=lambda: [b"\x0b\0\0\0\0\x20\0\0\x45" + bytes(60)]),
    "replay": Target(feed=replay.read, refuses=(InputUnreadable,), seeds=lambda: [b'{"schema": "netdiag.probes/1"}']),
    "web": Target(feed=_web, refuses=(ValueError,), seeds=lambda: [b"http://a:80/x", b"http://[::1]/"]),
    "elf": Target(feed=lambda data: _file(data, _elf), refuses=(BadObjectError,), seeds=_own_program, longest=65_536),
    "btf": Target(
        feed=lambda data: btf.structs(data, ["x_event"]), refuses=(InputUnreadable,), seeds=_own_program, longest=65_536
    ),
    "instructions": Target(feed=lambda data: list(instructions(data)), refuses=(NotCodeError,), seeds=lambda: [CODE]),
    "weights": Target(
        feed=lambda data: _file(data, lambda fd: headers.read_header(f"/proc/self/fd/{fd}")),
        refuses=(headers.BadHeaderError,),
        seeds=lambda: [b"GGUF\3\0\0\0" + bytes(16), (20).to_bytes(8, "little") + b'{"__metadata__":{}}  '],
    ),
}
