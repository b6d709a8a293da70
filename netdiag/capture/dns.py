# SPDX-License-Identifier: Apache-2.0
"""DNS messages of a capture → the stream `dns_message`, as the probe `dns` writes it. Who asks port 53 is local."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netdiag.capture.layouts import layout, rows
from netdiag.capture.sink import Chunk, Datagram, Harvest, Stream
from netdiag.decode import dns

__all__ = ["DnsDatagrams", "DnsStreams"]

_STREAM = "dns_message"
_PORT = 53
_SEND, _RECEIVE = 1, 2
_UDP, _TCP = 1, 2
_COOKIES = 1 << 60
"""Cookies of sockets that ask over UDP begin here; those of TCP are small."""
_COPIED = 512
_MOST = 100_000
"""Messages, or pieces of them, that are kept."""
_TWICE_NS = 1_000_000
"""The same datagram again so soon was captured at two places: nobody asks again as fast."""
_MOST_SOCKETS = 1 << 17


class _Kept:
    """Messages in the making."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._lost = 0

    def add(self, row: tuple[Any, ...]) -> None:
        if len(self._rows) < _MOST:
            self._rows.append(row)
        else:
            self._lost += 1

    def harvest(self) -> Harvest:
        if not self._rows:
            return Harvest()
        found = rows(_STREAM, len(self._rows))
        names = ("time", "cookie", "offset", "length", "copied", "direction", "transport", "local_port", "remote_port")
        columns = list(zip(*self._rows, strict=True))
        for name, values in zip(names, columns, strict=False):
            found[name] = values
        for number, (remote, data) in enumerate(zip(*columns[len(names) :], strict=True)):
            found["remote"][number] = np.frombuffer(remote, np.uint8)
            found["data"][number, : len(data)] = np.frombuffer(data, np.uint8)
        loss = [{"kind": "loss", "probe": _STREAM, "seen": len(self._rows), "lost": self._lost}] if self._lost else []
        return Harvest(records={_STREAM: found}, layouts={_STREAM: layout(_STREAM)}, facts=loss)


class DnsDatagrams:
    """Takes messages over UDP."""

    ports = frozenset({_PORT})
    quic = False

    def __init__(self) -> None:
        self._kept = _Kept()
        self._sockets: dict[tuple[Any, ...], int] = {}
        self._last: dict[int, tuple[int, bytes]] = {}

    def secrets(self, kind: int, data: bytes) -> None:
        """No secrets are needed."""

    def datagram(self, datagram: Datagram) -> None:
        """Take one datagram."""
        data = bytes(datagram.data)
        message = dns.read(data)
        if message is None or not message.questions:
            return
        asks = datagram.destination[1] == _PORT and not message.response
        local, remote = (datagram.source, datagram.destination) if asks else (datagram.destination, datagram.source)
        if remote[1] != _PORT or message.response == asks:
            return
        if len(self._sockets) >= _MOST_SOCKETS:
            self._sockets.clear()
        number = self._sockets.setdefault((local, remote), len(self._sockets) + 1)
        key = 2 * number + asks
        before = self._last.get(key)
        self._last[key] = (datagram.at_ns, data)
        if before is not None and before[1] == data and 0 <= datagram.at_ns - before[0] < _TWICE_NS:
            return
        direction, copied = _SEND if asks else _RECEIVE, data[:_COPIED]
        about = (datagram.at_ns, _COOKIES + number, 0, datagram.length, len(copied), direction, _UDP)
        self._kept.add((*about, local[1], remote[1], remote[0], copied))

    def finish(self) -> Harvest:
        """Return the messages."""
        return self._kept.harvest()


class DnsStreams:
    """Takes messages over TCP: pieces of streams to port 53."""

    def __init__(self) -> None:
        self._kept = _Kept()

    def secrets(self, kind: int, data: bytes) -> None:
        """No secrets are needed."""

    def begin(self, stream: Stream) -> _Pieces | None:
        """Return who takes the pieces of a connection to a name server that was seen from its start."""
        return _Pieces(self._kept, stream) if stream.server[1] == _PORT and stream.whole else None

    def finish(self) -> Harvest:
        """Return the pieces."""
        return self._kept.harvest()


class _Pieces:
    def __init__(self, kept: _Kept, stream: Stream) -> None:
        self._kept, self._stream = kept, stream

    def feed(self, chunks: Sequence[Chunk]) -> None:
        """Take bytes; a piece is at most as long as a record of the kernel probe holds."""
        remote, local_port = self._stream.server, self._stream.client[1]
        for chunk in chunks:
            data = bytes(chunk.data)
            for at in range(0, len(data), _COPIED):
                part = data[at : at + _COPIED]
                direction = _SEND if chunk.send else _RECEIVE
                about = (chunk.at_ns, self._stream.cookie, chunk.offset + at, len(part), len(part))
                self._kept.add((*about, direction, _TCP, local_port, remote[1], remote[0], part))

    def end(self, at_ns: int, *, clean: bool | None = None) -> None:
        """Nothing is left to do."""
