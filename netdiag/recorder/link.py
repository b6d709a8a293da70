# SPDX-License-Identifier: Apache-2.0
"""Both ends of the conversation between the front and the recorder.

One JSON object a line, one line a packet of a Unix SEQPACKET socket, at most 64 KiB; descriptors travel beside
a line by SCM_RIGHTS. Each end asks the kernel who the other one is before it reads a byte; where they meet is in
`netdiag.tracing.rendezvous`, so that the recorder imports no more than it needs.

    front → recorder   {"do": "start", "target": {…}, "command": {"pid": 4711, "argv": [masked]} | null,
                        "probes": [names], "options": {…}, "with": ["plain", "program"]}
                                                                     + the recording's descriptor, then those of `with`
    recorder → front   {"say": "armed", "at_ns": …, "coverage": {…}}
                     | {"say": "error", "exit_code": 4, "message": "…", "hint": "…" | null}
    front → recorder   {"do": "stop", "reason": "command-exited", "exit_status": 0 | null}
    front → recorder   {"do": "finish"}                 only with plaintext, once all of it was taken apart
    recorder → front   {"say": "ended"}

`with` names further descriptors, any or none of: `plain`, a Unix socket to which the plaintext of requests goes in
frames (`netdiag.recording.pieces`); `program`, the file that the command, which waits, will run: it is probed before.
After `stop` the recorder sends what is left, closes that socket and waits up to `FINISH_S` for `finish`, so that the
blocks that the other side appends to the recording come before the end block. Both then write to one description of
the file, which has O_APPEND. Without `plain`, probes that look at plaintext are left out.

End of file means that the other side is gone: the recorder then ends as well. Standard library only.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

__all__ = ["FINISH_S", "MAX_DESCRIPTORS", "MAX_LINE_BYTES", "Link", "Message", "Peer"]

MAX_LINE_BYTES = 64 * 1024
"""The longest line that either side sends or accepts, line feed included."""

FINISH_S = 5.0
"""How long the recorder waits for `finish`."""

MAX_DESCRIPTORS = 8
"""The most descriptors that may travel with one line."""

Message = dict[str, Any]

_PEERCRED = struct.Struct("iII")
_INTS = array.array("i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who is at the other end, as the kernel says (SO_PEERCRED)."""

    pid: int
    """0 where the peer lives in a PID namespace that cannot be seen from here."""
    uid: int
    gid: int


class Link:
    """One end of the conversation. Owns its socket; a context manager closes it."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        pid, uid, gid = _PEERCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))
        self.peer = Peer(pid=pid, uid=uid, gid=gid)

    @classmethod
    def connect(cls, path: str, *, uid: int) -> Self:
        """Return the recorder's end of the socket at `path`, whose maker must be `uid`.

        Raises PermissionError where somebody else listens there, OSError where nobody does.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(path)
            link = cls(connection)
        except BaseException:
            connection.close()
            raise
        if link.peer.uid != uid:
            connection.close()
            raise PermissionError(f"{path} belongs to user {link.peer.uid}, not to {uid}")
        return link

    def fileno(self) -> int:
        """Return the descriptor, to wait for: readable means a message or the end of file."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Send one message and copies of `fds`.

        Raises ValueError for a message over 64 KiB, BrokenPipeError or ConnectionError where the peer is gone.
        """
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"a message of {len(line)} bytes; at most {MAX_LINE_BYTES} may be sent")
        socket.send_fds(self._socket, [line], list(fds), socket.MSG_NOSIGNAL)

    def receive(self, timeout_s: float | None = None) -> tuple[Message, tuple[int, ...]]:
        """Wait for one message; return it with the descriptors that came along (the caller closes them).

        Raises EOFError when the peer is gone, TimeoutError after `timeout_s`, ValueError for what is not a message.
        """
        if timeout_s is not None and not select.select([self._socket], [], [], max(timeout_s, 0.0))[0]:
            raise TimeoutError(f"no message within {timeout_s:.3f} s")
        try:
            line, fds, flags = _receive(self._socket)
        except ConnectionResetError as error:
            raise EOFError("the peer is gone") from error
        try:
            return _parse(line, flags), tuple(fds)
        except BaseException:
            _close_all(fds)
            raise

    def poll(self) -> tuple[Message, tuple[int, ...]] | None:
        """Return the next message if one is there, else None. Raises as `receive` does."""
        try:
            return self.receive(timeout_s=0.0)
        except TimeoutError:
            return None

    def close(self) -> None:
        """Hang up: the peer reads the end of file."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _receive(connection: socket.socket) -> tuple[bytes, list[int], int]:
    """Take one packet and its descriptors, these close-on-exec (socket.recv_fds of Python 3.11 drops the flags)."""
    space = socket.CMSG_SPACE(MAX_DESCRIPTORS * _INTS.itemsize)
    line, ancillary, flags, _ = connection.recvmsg(MAX_LINE_BYTES, space, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return line, list(fds), flags


def _parse(line: bytes, flags: int) -> Message:
    """Return the object on `line`, the content of one whole packet."""
    if not line:
        raise EOFError("the peer is gone")
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise ValueError("a message longer, or with more descriptors, than the protocol allows")
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a line of JSON: {error}") from error
    if not isinstance(message, dict):
        raise ValueError("a message must be a JSON object")  # noqa: TRY004 - the peer's bytes are wrong, not a type here
    return message


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
