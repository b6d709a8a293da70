# SPDX-License-Identifier: Apache-2.0
"""Takes plaintext apart in a process of its own, without privileges: records of calls in, requests and chunks out.

The bytes live in this process only, until they are parsed. What it appends to the recording are the records and facts
of requests; what it could not follow is counted, never guessed.
"""

from __future__ import annotations

import heapq
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from netdiag import assets, btf, manifest
from netdiag.decode.http.conversation import Conversation, Told
from netdiag.decode.http.exchange import Exchange
from netdiag.decode.http.rows import Strings, chunk_row, request_row
from netdiag.decode.piece import Direction, Piece
from netdiag.recording.appender import Appender, Packer
from netdiag.recording.format import StreamLayout
from netdiag.recording.pieces import Frames, PlainRecord, records

__all__ = ["Dissector", "layouts", "serve"]

_RECEIVE_BYTES = 1 << 18
_SETTLE_NS = 60_000_000
"""Small and large records come by two rings, which are emptied in turn: so long a record waits for older ones.

Where the recorder says up to when all have come, it counts from there: a busy machine may let it wait for longer."""
_SETTLE_S = _SETTLE_NS / 1e9
_MOST_HELD = 16_384
_MOST_CONVERSATIONS = 4096
_WRITE_S = 0.1
_WRITE_ROWS = 512
_MOST_STRINGS = 2000
"""Texts in one fact: it must stay under the block's limit."""

_WHOLE, _END, _UNSEEN, _MIXED = 1, 2, 4, 8
_SEND = 1
_LIBRARIES = {1: "openssl", 2: "boringssl", 3: "gnutls", 4: "go"}
_BINDINGS = {
    1: ("inside", 1.0), 2: ("handshake", 0.9), 3: ("size", 0.9), 4: ("descriptor", 1.0), 5: ("packet", 1.0),
}  # fmt: skip
"""Code → how the socket is known, and how sure that is."""
_REQUEST, _CHUNK = "http_request", "http_chunk"


def layouts() -> dict[str, StreamLayout]:
    """Return the layouts of the streams that are made here, by name."""
    path = assets.bpf_object("http")
    made = {stream.name: stream for stream in manifest.derived() if stream.name in (_REQUEST, _CHUNK)}
    found = btf.structs(path, [stream.struct for stream in made.values()])
    return {name: found[stream.struct].in_ring(stream=stream.number, name=name) for name, stream in made.items()}


@dataclass(slots=True, kw_only=True)
class _Talk:
    """A conversation with what is known of who has it."""

    number: int
    conversation: Conversation
    pid: int
    library: int
    cookie: int = 0
    binding: int = 0
    mixed: bool = False
    whole: bool = False
    missed: bool = False
    tid: int = 0
    ended: int = 0
    """Directions that ended, as bits."""
    told: bool = False
    """Its fact was written as it is now."""
    broken: bool = False
    """It was given up for a fault of ours: what comes of it still is not looked at."""


class Dissector:
    """Takes records in any order within the settling time, and appends what they tell."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        made = layouts()
        self._layouts = made
        self._packers = {name: Packer(layout) for name, layout in made.items()}
        self._rows: dict[str, list[bytes]] = {name: [] for name in made}
        self._strings = Strings()
        self._held: list[tuple[int, bool, int, PlainRecord]] = []
        self._count = 0
        self._newest = 0
        self.until: int | None = None
        """Instant up to which all records have come, of whichever ring; None where nobody says so."""
        self._talks: OrderedDict[tuple[int, int, int, int], _Talk] = OrderedDict()
        self._numbers = 0
        self._begun = False
        self.taken = 0
        """Records that were looked at."""
        self.broken = 0
        """Conversations that were given up for a fault of the parser's."""
        self._not_followed: Counter[str] = Counter()
        self._spoken: Counter[str] = Counter()

    def begin(self) -> None:
        """Write the layouts; the recording's header must be there."""
        if not self._begun:
            self._begun = True
            for layout in self._layouts.values():
                self._appender.layout(layout)

    def take(self, found: Iterable[PlainRecord]) -> None:
        """Take records; those that are old enough are looked at, in order of time."""
        for record in found:
            self._count += 1
            # what is sent is there when the call begins, what is read when it returns: no answer before its question
            at_ns = record.entered if record.direction == _SEND and record.entered else record.time
            # a packet may hold both the last bytes and the end, and the end comes by the faster ring
            heapq.heappush(self._held, (at_ns, bool(record.flags & _END), self._count, record))
            self._newest = max(self._newest, record.time)
        known = self._newest if self.until is None else min(self._newest, self.until)
        self._release(known - _SETTLE_NS)

    def settle(self) -> None:
        """Nothing came for a while: look at all that is held, as far as it is known to be complete."""
        self._release(self.until)

    def write(self) -> None:
        """Append what was found since the last time."""
        first, texts = self._strings.take()
        for at in range(0, len(texts), _MOST_STRINGS):
            self._appender.fact("strings", {"first": first + at, "values": texts[at : at + _MOST_STRINGS]})
        for name, rows in self._rows.items():
            self._appender.records(self._layouts[name].stream, rows)
            rows.clear()

    def finish(self, *, whole: bool) -> None:
        """End all conversations and write the last facts. `whole`: the recorder said that this was all."""
        self._release(None)
        for talk in self._talks.values():
            self._end(talk, self._newest, clean=None)
        self._talks.clear()
        self.write()
        if self._numbers or not whole:
            said = {"conversations": self._numbers, "spoken": dict(self._spoken), "whole": whole}
            self._appender.fact("plaintext", {**said, "not_followed": dict(self._not_followed)})
        if self.taken or self.broken:
            self._appender.fact("loss", {"probe": "http", "seen": self.taken, "lost": self.broken})

    def _release(self, until: int | None) -> None:
        held = self._held
        while held and (until is None or held[0][0] <= until or len(held) > _MOST_HELD):
            self._look(heapq.heappop(held)[3])
        if sum(map(len, self._rows.values())) >= _WRITE_ROWS:
            self.write()

    def _look(self, record: PlainRecord) -> None:
        """Feed a record to its conversation. Whatever it holds, the others go on."""
        self.taken += 1
        if not record.handle and not record.cookie:
            return
        key = (record.tgid, record.handle, record.generation, 0) if record.handle else (0, 0, 0, record.cookie)
        talk = self._talks.get(key)
        if talk is None:
            if record.flags & _END:
                return
            talk = self._open(key, record)
        self._talks.move_to_end(key)
        if talk.broken:
            return
        try:
            self._bind(talk, record)
            if record.flags & _END:
                self._ended(key, talk, record)
            else:
                self._feed(talk, record)
        except Exception:  # noqa: BLE001 - a fault of ours must not end the trace, nor show what it choked on
            self._give_up(talk)

    def _give_up(self, talk: _Talk) -> None:
        """Say of a conversation that it was not followed; it stays, so that its rest is not taken for a new one."""
        self.broken += 1
        talk.broken = True
        self._spoken[talk.conversation.protocol or "other"] += 1
        self._not_followed["netdiag itself failed to read it"] += 1

    def _open(self, key: tuple[int, int, int, int], record: PlainRecord) -> _Talk:
        self._numbers += 1
        joined = not record.flags & _WHOLE
        talk = self._talks[key] = _Talk(
            number=self._numbers,
            conversation=Conversation(joined=joined, exact=not record.handle),
            pid=record.tgid,
            library=record.library,
            whole=not joined,
        )
        if len(self._talks) > _MOST_CONVERSATIONS:
            _, oldest = self._talks.popitem(last=False)
            self._not_followed["more conversations at once than are followed"] += 1
            self._end(oldest, record.time, clean=None)
        return talk

    def _bind(self, talk: _Talk, record: PlainRecord) -> None:
        mixed = bool(record.flags & _MIXED)
        if mixed and not talk.mixed:
            talk.mixed, talk.told = True, False
        if record.cookie and record.cookie != talk.cookie:
            talk.cookie, talk.binding, talk.told = record.cookie, record.binding, False

    def _feed(self, talk: _Talk, record: PlainRecord) -> None:
        direction: Direction = "send" if record.direction == _SEND else "receive"
        if direction == "send" or not talk.tid:
            talk.tid = record.tid
        unseen = record.flags & _UNSEEN
        piece = Piece(
            at_ns=record.time,
            direction=direction,
            offset=record.offset,
            length=record.length,
            data=b"" if unseen else record.data,
            tail=b"" if unseen else record.tail,
        )
        told = talk.conversation.feed(piece)
        if told:
            self._tell(talk, told, record.time)

    def _ended(self, key: tuple[int, int, int, int], talk: _Talk, record: PlainRecord) -> None:
        talk.ended |= 1 << (record.direction & 1)
        answers: Literal[1, 2] = 1 if talk.conversation.role == "server" else 2
        if record.handle or record.direction == answers or talk.ended == 3:
            self._talks.pop(key, None)
            self._end(talk, record.time, clean=True)

    def _end(self, talk: _Talk, at_ns: int, *, clean: bool | None) -> None:
        if talk.broken:
            return
        try:
            self._tell(talk, talk.conversation.end(at_ns, clean=clean), at_ns)
        except Exception:  # noqa: BLE001 - as above
            self._give_up(talk)
            return
        spoken, why = talk.conversation.protocol, talk.conversation.not_followed
        self._spoken[spoken or "other"] += 1
        if spoken is not None and why is not None:
            self._not_followed[why] += 1
        link = talk.conversation.link
        if link is not None:
            members = {name: getattr(link, name) for name in link.__dataclass_fields__}
            self._appender.fact("http2", {"conversation": talk.number, **members})

    def _tell(self, talk: _Talk, told: list[Told], at_ns: int) -> None:
        server = talk.conversation.role == "server"
        for each in told:
            if isinstance(each, Exchange):
                row = request_row(
                    each, self._strings, conversation=talk.number, cookie=0 if talk.mixed else talk.cookie,
                    at_ns=at_ns, server=server, pid=talk.pid, tid=talk.tid,
                )  # fmt: skip
                self._rows[_REQUEST].append(self._packers[_REQUEST].pack(row))
            else:
                self._rows[_CHUNK].append(self._packers[_CHUNK].pack(chunk_row(each, conversation=talk.number)))
        if talk.conversation.missed and not talk.missed:
            talk.missed, talk.told = True, False
        if told and not talk.told:
            talk.told = True
            self._appender.fact("conversation", _fact_of(talk))


def _fact_of(talk: _Talk) -> dict[str, Any]:
    how, confidence = _BINDINGS.get(talk.binding, (None, 0.0))
    bound = talk.cookie and not talk.mixed
    return {
        "conversation": talk.number,
        "pid": talk.pid,
        "library": _LIBRARIES.get(talk.library),
        "cookie": talk.cookie if bound else 0,
        "how": how if bound else None,
        "confidence": confidence if bound else 0.0,
        "mixed": talk.mixed,
        "whole": talk.whole,
        "missed": talk.missed,
        "server": talk.conversation.role == "server",
        "protocol": talk.conversation.protocol,
    }


def serve(incoming: socket.socket, recording_fd: int) -> bool:
    """Take plaintext apart until the recorder closes the socket; return whether it said that this was all."""
    dissector, frames = Dissector(Appender(recording_fd)), Frames()
    incoming.settimeout(_SETTLE_S)
    written, intact = time.monotonic(), True
    while (data := _receive(incoming)) != b"":
        if data is None:
            dissector.settle()
        elif intact:
            intact = _take(dissector, frames, data)
        if data is None or time.monotonic() - written > _WRITE_S:
            dissector.write()
            written = time.monotonic()
    whole = intact and frames.losses is not None
    if frames.layouts:
        dissector.finish(whole=whole)
    return whole


def _receive(incoming: socket.socket) -> bytes | None:
    """Return what came, None where nothing does for now, nothing at the end."""
    try:
        return incoming.recv(_RECEIVE_BYTES)
    except TimeoutError:
        return None
    except OSError:
        return b""


def _take(dissector: Dissector, frames: Frames, data: bytes) -> bool:
    """Hand what came over; return False where it cannot be cut into frames: then the socket is only emptied."""
    try:
        for layout, body in frames.feed(data):
            dissector.begin()
            dissector.until = frames.until
            dissector.take(records(layout, body))
    except ValueError:
        return False
    dissector.until = frames.until
    if frames.layouts:
        dissector.begin()
    return True
