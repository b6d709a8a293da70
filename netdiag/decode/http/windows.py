# SPDX-License-Identifier: Apache-2.0
"""Flow control of HTTP/2 in one direction (RFC 9113 section 5.2): for how long senders stood at the end of a window."""

from __future__ import annotations

__all__ = ["Windows"]

_DEFAULT = 65_535


class Windows:
    """What the receiver allows and the sender has used, for the connection and its streams."""

    def __init__(self, *, known: bool) -> None:
        """`known`: the connection was seen from its beginning."""
        self.known = known
        self.initial = _DEFAULT
        self._connection = _DEFAULT
        self._streams: dict[int, int] = {}
        self._shut: dict[int, int] = {}
        """Since when a window is shut, by stream; 0 is the connection's."""

    def open(self, stream: int) -> None:
        """A stream begins."""
        self._streams[stream] = self.initial

    def close(self, stream: int) -> None:
        """A stream is over."""
        self._streams.pop(stream, None)
        self._shut.pop(stream, None)

    def set_initial(self, value: int) -> None:
        """The receiver set the initial size: open streams change by the difference."""
        change = value - self.initial
        self.initial = value
        for stream in self._streams:
            self._streams[stream] += change

    def use(self, stream: int, length: int, at_ns: int) -> None:
        """The sender sent a DATA frame of `length` bytes, padding included."""
        self._connection -= length
        if self._connection <= 0:
            self._shut.setdefault(0, at_ns)
        if stream in self._streams:
            self._streams[stream] -= length
            if self._streams[stream] <= 0:
                self._shut.setdefault(stream, at_ns)

    def update(self, stream: int, increment: int, at_ns: int) -> int:
        """The receiver allows more, on a stream or (0) all of them; return for how long nothing was allowed, ns."""
        if stream == 0:
            self._connection += increment
            left = self._connection
        elif stream in self._streams:
            self._streams[stream] += increment
            left = self._streams[stream]
        else:
            return 0
        since = self._shut.pop(stream, None) if left > 0 else None
        return max(at_ns - since, 0) if since is not None and self.known else 0
