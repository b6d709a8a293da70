# SPDX-License-Identifier: Apache-2.0
"""Hands records that no file may hold to the process that takes them apart, without ever waiting for it.

What the socket does not take at once stays in the kernel's ring: a reader that is too slow for longer than the ring has
room makes the kernel count losses, as with every other stream. Standard library only.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Mapping, Sequence

from netdiag.recording.format import StreamLayout
from netdiag.recording.pieces import control, frame_header

__all__ = ["PlainSocket"]

_ROOM_BYTES = 4 << 20
"""What the socket may hold, where the kernel grants it."""
_MARKS = 2
"""How often it is said after a record that all was sent: the first may say it of an instant before that record."""


class PlainSocket:
    """The recorder's end of the socket for plaintext. Owns its descriptor."""

    def __init__(self, fd: int, layouts: Sequence[StreamLayout]) -> None:
        """Take over a connected Unix socket and tell the layouts of the streams that will come."""
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM_BYTES)
        self._rest = bytearray()
        self._gone = False
        self._marks = 0
        self._put(control({"say": "layouts", "layouts": [layout.to_json() for layout in layouts]}))

    @property
    def gone(self) -> bool:
        """Tell whether nobody reads at the other end any more."""
        return self._gone

    def records(self, stream: int, runs: Sequence[memoryview]) -> bool:
        """Send runs of whole records; return False, and send nothing, while there is no room.

        Where the reader is gone they are dropped: then there is nobody to keep them for.
        """
        if not self._flush():
            return self._gone
        for run in runs:
            self._put(frame_header(stream, len(run)), run)
        self._marks = _MARKS
        return True

    def all_sent(self, until_ns: int) -> None:
        """Say that of all streams all was sent that was written up to then: the reader puts them in order by time.

        Rings are emptied in turn, and on a busy machine much time may pass between two of them.
        """
        if self._marks and self._flush():
            self._marks -= 1
            self._put(control({"say": "until", "time": until_ns}))

    def finish(self, losses: Mapping[str, tuple[int, int]], deadline: float) -> None:
        """Say what was lost and close; waits for the reader up to `deadline` on the monotonic clock."""
        if self._drain(deadline):
            told = {name: {"seen": seen, "lost": lost} for name, (seen, lost) in losses.items()}
            self._put(control({"say": "losses", "streams": told}))
            self._drain(deadline)
        self._socket.close()

    def wait(self, deadline: float) -> bool:
        """Wait until there is room; return whether there is, and somebody who reads."""
        return self._drain(deadline) and not self._gone

    def _drain(self, deadline: float) -> bool:
        while not self._flush():
            if self._gone:
                return False
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [self._socket], [], left)[1]:
                return False
        return True

    def _put(self, *parts: bytes | memoryview) -> None:
        """Send what the socket takes and keep the rest: at most one frame, since no other is begun before."""
        for part in parts:
            self._rest += part
        self._flush()

    def _flush(self) -> bool:
        """Send what is left of the last frame; return whether nothing is."""
        while self._rest and not self._gone:
            try:
                sent = self._socket.send(self._rest, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return False
            except OSError:
                self._gone = True
                break
            del self._rest[:sent]
        if self._gone:
            self._rest.clear()
            return False
        return True
