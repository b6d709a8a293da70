# SPDX-License-Identifier: Apache-2.0
"""A capture file as a recording: packets in, the streams and facts of a live trace out, in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netdiag import __version__
from netdiag.capture import keylog as keylogs
from netdiag.capture.clock import Clock
from netdiag.capture.container import Batch, Notes, batches
from netdiag.capture.echoes import echoes
from netdiag.capture.events import Events
from netdiag.capture.flows import Flow, Flows, Sorted
from netdiag.capture.follow import Talk, who_asks
from netdiag.capture.keylog import KeyLog
from netdiag.capture.layers import Layers, Segments
from netdiag.capture.layouts import layout
from netdiag.capture.limits import Limits, chosen, inside, take
from netdiag.capture.parts import Wishes, datagram_sinks, stream_sinks
from netdiag.capture.pieces import Columns, Found, Pieces, pieces_of
from netdiag.capture.rows import JIFFIES_A_SECOND, Hellos, bursts, connections, resent_rows, unseen
from netdiag.capture.sequence import Order, Piece, Sequences
from netdiag.capture.sink import Datagram, DatagramSink, StreamSink
from netdiag.capture.source import Input, Source, open_source
from netdiag.capture.spool import Spool
from netdiag.recording.format import StreamLayout
from netdiag.recording.reader import Recording, Records
from netdiag.values import rfc3339

__all__ = ["Progress", "read"]

Ints = NDArray[np.int64]

Progress = Callable[[int, int | None], None]
"""Called now and then with the bytes of the file that were read, and its size where it is known."""

_MAPPED = bytes(10) + b"\xff\xff"
_SERVER_PORTS = 1024
_QUIC_FORM = 0xC0
_QUIC_VERSIONS = (0x00000001, 0x6B3343CF, 0)


def read(
    source: Source,
    *,
    name: str | None = None,
    keylog: Path | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
    spool: Spool | None = None,
) -> Recording:
    """Return what a capture file shows, as a recording of the tier `capture`.

    Who sent the SYN is local; each connection is there once, from the client's side. Cookies are numbers in order of
    the first packet. InputUnreadable, with the offset, for what is no capture file; one that breaks off in the middle
    gives what came before and `truncated_at`, an offset in the unpacked file. `name` is what errors call the file;
    `spool` is where records wait while it is read.
    """
    wishes = Wishes(keys=keylogs.read(keylog) if keylog is not None else KeyLog())
    spool = spool or Spool()
    file = open_source(source)
    file.name = name or file.name
    try:
        reader = _Reader(file, wishes, limits or Limits(), progress, spool)
        reader.run()
        again = file.again() if wishes.keys.late else None
        if again is not None:  # what the first time could not be opened: its secrets lie behind it
            spool.clear()
            reader = _Reader(again, wishes, limits or Limits(), progress, spool)
            reader.run()
        return reader.recording(unopened=wishes.keys.late and again is None)
    finally:
        file.close()
        spool.close()


class _Reader:
    def __init__(self, file: Input, wishes: Wishes, limits: Limits, progress: Progress | None, spool: Spool) -> None:
        self._file, self._limits, self._progress, self._keys = file, limits, progress, wishes.keys
        self._notes, self._layers, self._clock = Notes(), Layers(), Clock()
        self._flows, self._hellos = Flows(), Hellos(keep_names=bool(limits.names))
        self._sequences, self._events = Sequences(self._flows), Events(self._flows)
        self._stream_sinks = stream_sinks(wishes)
        self._datagram_sinks = datagram_sinks(wishes)
        self._sinks: tuple[StreamSink | DatagramSink, ...] = (*self._stream_sinks, *self._datagram_sinks)
        self._talks: dict[int, Talk] = {}
        self._spool = spool
        self._runs: dict[str, list[Records]] = {"tcp_io": [], "tls_record": []}
        self._start: int | None = None
        self._end = self._size = 0

    def run(self) -> None:
        """Read the whole file."""
        for batch in batches(self._file, self._notes):
            self._secrets()
            self._take(batch)
            if self._progress is not None:
                self._progress(self._file.taken, self._file.size)
        self._finish()

    def _secrets(self) -> None:
        for kind, data in self._notes.secrets:
            for sink in self._sinks:
                sink.secrets(kind, data)
        self._notes.secrets.clear()

    def _take(self, batch: Batch) -> None:
        if not len(batch.at):
            return
        time = self._clock.settle(batch.time_ns)
        self._size += int(batch.captured.sum())
        self._flows.room(self._size)
        low, high = int(time.min()), int(time.max())
        if self._start is None:
            self._limits = self._limits.since(low)
        self._start = low if self._start is None else min(self._start, low)
        self._end = max(self._end, high)
        tcp, udp = self._layers.split(batch, time)
        if (np.diff(time) < 0).any():
            tcp, udp = (take(part, np.argsort(part.time_ns, kind="stable")) for part in (tcp, udp))
        if self._limits != Limits():
            tcp, udp = (take(part, chosen(part, self._limits)) for part in (tcp, udp))
        if len(udp.packet) and self._datagram_sinks:
            self._datagrams(udp)
        if len(tcp.packet):
            self._segments(tcp)
        if self._layers.refusals:
            self._events.refused(self._layers.refusals)
            self._layers.refusals.clear()

    def _segments(self, tcp: Segments) -> None:
        s = self._flows.sort(tcp)
        order = self._sequences.order(s)
        self._events.take(s, order)
        echoes(s, order, self._flows)
        found = self._talk(s, order)
        client = np.array([max(self._flows.all[number].client, 0) for number in s.flows.tolist()], np.int64)
        self._spool.add("tcp_io", bursts(s, order, client))
        self._spool.add("tcp_io", resent_rows(order.resent, self._flows))
        self._spool.add("tls_record", found.rows())

    def _talk(self, s: Sorted, order: Order) -> Found:
        """Hand the new bytes of each connection to those who read them; return the TLS records."""
        found = Found()
        for number, sides in pieces_of(s, order, self._flows.follow).items():
            self._feed(self._flows.all[number], sides, found)
        return found

    def _feed(self, flow: Flow, sides: Mapping[int, Pieces], found: Found) -> None:
        if flow.client < 0:
            _orient(flow, sides)
        talk = self._talks.get(flow.number)
        if talk is None:
            talk = self._talks[flow.number] = Talk(flow, self._stream_sinks, self._hellos.say)
        waiting: list[Sequence[Piece]] = [(), ()]
        for place, direction in enumerate((flow.client, 1 - flow.client)):
            pieces = sides.get(direction)
            if pieces is None:
                continue
            if isinstance(pieces, Columns) and pieces.even and talk.skips:
                talk.feed(*waiting)  # what comes before it in the order of records
                found.take(flow.number, talk)
                waiting = [(), ()]
                if talk.skip(place == 0, pieces.start, pieces.end):
                    found.even(flow.number, pieces, send=place == 0)
                    continue
            waiting[place] = pieces.all()
        talk.feed(*waiting)
        found.take(flow.number, talk)
        if talk.idle:
            self._flows.follow[flow.number] = False
            del self._talks[flow.number]
        elif flow.ended_ns:
            self._end_talk(flow.number, flow.ended_ns, found)

    def _end_talk(self, number: int, at_ns: int, found: Found) -> None:
        talk = self._talks.pop(number)
        self._flows.follow[number] = False
        client = max(self._flows.all[number].client, 0)
        talk.end(at_ns, (self._flows.passed(number, client), self._flows.passed(number, 1 - client)))
        found.take(number, talk)

    def _datagrams(self, udp: Segments) -> None:
        for sink in self._datagram_sinks:
            for index in np.flatnonzero(_wanted(udp, sink)).tolist():
                place, held = int(udp.payload[index]), int(udp.held[index])
                ends = udp.ends[index].tobytes()
                sink.datagram(
                    Datagram(
                        at_ns=int(udp.time_ns[index]),
                        source=(ends[:16], int(udp.source[index])),
                        destination=(ends[16:], int(udp.destination[index])),
                        length=int(udp.length[index]),
                        data=memoryview(udp.raw)[place : place + held],
                    )
                )

    def _finish(self) -> None:
        found = Found()
        for number, direction, pieces in self._sequences.rest():
            if self._flows.follow[number]:
                self._feed(self._flows.all[number], {direction: Pieces(pieces)}, found)
        self._secrets()
        for number in list(self._talks):
            self._end_talk(number, self._flows.all[number].last_ns, found)
        self._spool.add("tls_record", found.rows())
        for flow in self._flows.all:
            if flow.client < 0:
                _orient(flow, {})

    def recording(self, *, unopened: bool = False) -> Recording:
        """Return what was found; `unopened`: some secrets came too late for what they open."""
        self._within_time()
        start = self._start or 0
        self._runs |= self._spool.runs()
        self._runs["tcp"] = [connections(self._flows, max(self._end, start))]
        layouts: dict[str, StreamLayout] = {name: layout(name) for name in ("tcp", "tcp_io", "tls_record")}
        facts: list[dict[str, Any]] = [*self._hellos.facts]
        for sink in self._sinks:
            harvest = sink.finish()
            facts += [dict(fact) for fact in harvest.facts]
            for name, records in harvest.records.items():
                layouts[name] = harvest.layouts[name]
                self._runs.setdefault(name, []).append(records)
        if self._limits.names:
            facts = self._named(facts)
        notes = self._notes
        facts += [
            {"kind": "kernel", "hz": JIFFIES_A_SECOND},
            {"kind": "unseen", "cookies": unseen(self._flows)},
            *self._said_of_losses(),
            self._coverage(unopened=unopened),
        ]
        end = None if notes.stopped_at is not None else {"exit_reason": "end of the capture", "at_ns": self._end}
        return Recording(
            header={
                "version": __version__,
                "started": rfc3339(start),
                "clock": {"monotonic_ns": start, "realtime_ns": start, "boottime_ns": 0},
                "host": {},
                "target": self._limits.target(),
                "command": None,
                "tier": "capture",
            },
            layouts=layouts,
            runs=self._runs,
            facts=facts,
            end=end,
            truncated_at=notes.stopped_at,
            truncated_why=notes.stopped_why,
        )

    def _within_time(self) -> None:
        """Let the recording begin and end where the user said."""
        if self._start is not None and self._limits.start_ns is not None:
            self._start = min(max(self._start, self._limits.start_ns), self._end)
        if self._start is not None and self._limits.end_ns is not None:
            self._end = max(min(self._end, self._limits.end_ns), self._start)

    def _named(self, facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Leave out the connections that have none of the names and addresses that are wanted."""
        names = self._notes.names
        wanted = {number + 1 for number, name in self._hellos.names.items() if name in self._limits.names}
        for flow in self._flows.all:
            address = flow.ends[1 - max(flow.client, 0)][0]
            found = names.get(address[12:] if address[:12] == _MAPPED else address, "").lower()
            if found in self._limits.names or inside(address, self._limits.networks):
                wanted.add(flow.number + 1)
        cookies = np.array(sorted(wanted), np.uint64)
        for stream, runs in self._runs.items():
            self._runs[stream] = [
                run[np.isin(run["cookie"], cookies)] if "cookie" in (run.dtype.names or ()) else run for run in runs
            ]
        # a hello that refers to one of another connection needs that one's text: its records are gone, so it is, too
        return facts

    def _said_of_losses(self) -> list[dict[str, Any]]:
        """Return how many packets the file lacks: told by whoever captured, and at least one for each hole."""
        holes = self._sequences.holes
        lost = sum(self._notes.dropped.values()) + holes + self._flows.left_out
        if not self._notes.dropped and not lost:
            return []
        seen = self._notes.packets - self._flows.left_out
        return [{"kind": "loss", "probe": "packets", "seen": seen, "lost": lost}]

    def _coverage(self, *, unopened: bool) -> dict[str, Any]:
        notes, layers = self._notes, self._layers
        unseen = [
            ("processes and threads", "packets do not name them"),
            ("when programs read what had arrived", "it happens inside the machine"),
        ]
        if notes.cut:
            unseen.append((f"the rest of {notes.cut} of {notes.packets} packets", "the snap length cut them off"))
        if unopened:
            unseen.append(("what some encrypted connections said", "their secrets came behind them, through a pipe"))
        if self._keys.useless:
            unseen.append(("what encrypted connections said", self._keys.useless))
        if self._flows.left_out:
            why = f"there are too many connections: the first {len(self._flows.all)} were followed"
            unseen.append((f"{self._flows.left_out} packets of further connections", why))
        unseen += [(f"{count} packets", f"not taken apart: {why}") for why, count in sorted(layers.unknown.items())]
        if self._clock.set_back:
            unseen.append(("some of the time", f"the clock was set back {self._clock.set_back} times"))
        if layers.fragments.lost:
            unseen.append((f"{layers.fragments.lost} packets in fragments", "parts of them are missing"))
        tunnels = [f"{kind} ({count} packets)" for kind, count in sorted(layers.tunnels.items())]
        reason = f"connections inside of tunnels: {', '.join(tunnels)}" if tunnels else None
        return {
            "kind": "coverage",
            "tier": "capture",
            "probes": [{"name": "packets", "state": "attached", "reason": reason, "remedy": None}],
            "tls_libraries": [],
            "unobservable": [{"pid": None, "what": what, "why": why} for what, why in unseen],
        }


def _orient(flow: Flow, sides: Mapping[int, Pieces]) -> None:
    """Say who is the client of a connection whose opening is not in the file: by what is said, else by the ports."""
    for direction, pieces in sides.items():
        for _, _, held, _, data, place in pieces.all()[:1]:
            asks = who_asks(data, place, held)
            if asks is not None:
                flow.client, flow.sure = direction if asks else 1 - direction, True
                return
    low, high = flow.ends[0][1], flow.ends[1][1]
    flow.client = 1 if low < min(high, _SERVER_PORTS) or (high >= _SERVER_PORTS and low < high) else 0


def _wanted(udp: Segments, sink: DatagramSink) -> NDArray[np.bool_]:
    ports = list(sink.ports)
    wanted = np.isin(udp.source, ports) | np.isin(udp.destination, ports)
    if sink.quic:
        data = np.frombuffer(udp.raw, np.uint8)
        at = np.minimum(udp.payload, len(data) - 8)
        version = np.lib.stride_tricks.sliding_window_view(data, 4)[at + 1]
        number = np.ascontiguousarray(version).view(">u4")[:, 0]
        quic = (data[at] & _QUIC_FORM == _QUIC_FORM) & np.isin(number, _QUIC_VERSIONS) & (udp.held > 6)
        # packets of such a connection with a short header look like anything: they are known by who sends them
        known = [*udp.source[quic].tolist(), *udp.destination[quic].tolist()]
        wanted |= np.isin(udp.source, known) & np.isin(udp.destination, known)
    return wanted
