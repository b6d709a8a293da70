# SPDX-License-Identifier: Apache-2.0
"""The process in which plaintext is taken apart: forked by the front once it holds no privileges any more.

Whatever goes wrong in there, the trace goes on: then the requests of plaintext are missing, and the recording says so.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import time
from typing import NoReturn

from netdiag.ebpf.memory import leave_no_core

__all__ = ["Dissection"]

_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE)
"""Whoever ends the trace, this process ends when the recorder has closed the socket."""
_BUFFER_BYTES = 4 << 20
_LOOK_S = 0.005
_MOST_DESCRIPTORS = 1 << 20


class Dissection:
    """A started process, and the socket that the recorder writes plaintext to."""

    def __init__(self, recording_fd: int) -> None:
        """Start it; `recording_fd` is open for appending. OSError where no process can be started."""
        ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(OSError):
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        try:
            self._pid = os.fork()
        except OSError:
            ours.close()
            self._theirs.close()
            raise
        if self._pid == 0:
            _live(ours, recording_fd)
        ours.close()

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._pid

    def fileno(self) -> int:
        """Return the descriptor to give to the recorder."""
        return self._theirs.fileno()

    def handed_over(self) -> None:
        """Say that the recorder has the socket: this process closes its own copy of it."""
        self._theirs.close()

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended, which it does when the recorder has closed the socket; return whether it has."""
        self._theirs.close()
        deadline = time.monotonic() + timeout_s
        while self._pid and not self._reap():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)
        return True

    def close(self) -> None:
        """End it, whatever it does."""
        self._theirs.close()
        if self._pid and not self._reap():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = 0

    def _reap(self) -> bool:
        try:
            ended, _ = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            ended = self._pid
        if ended:
            self._pid = 0
        return bool(ended)


def _live(incoming: socket.socket, recording_fd: int) -> NoReturn:
    """Be that process: hold nothing but the socket and the recording, leave no core, say nothing, and end."""
    status = 1
    try:
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        leave_no_core()
        from netdiag.tracing.dissect import serve  # only here: the front needs nothing of what takes bytes apart

        low, high = _settle(incoming, recording_fd)
        status = 0 if serve(socket.socket(fileno=low), high) else 1
    except BaseException:  # noqa: BLE001, S110 - a traceback might show what must not be shown
        pass
    finally:
        os._exit(status)


def _settle(incoming: socket.socket, recording_fd: int) -> tuple[int, int]:
    """Close every other descriptor: a copy of a pipe or socket would keep its other end from seeing that it ended."""
    nothing = os.open(os.devnull, os.O_RDWR)
    kept = os.dup(incoming.detach()), os.dup(recording_fd)
    for target in (0, 1, 2):
        os.dup2(nothing, target)
    # two free places behind the standard ones
    high = max(*kept, 16)
    first, second = os.dup2(kept[0], high + 1), os.dup2(kept[1], high + 2)
    os.closerange(3, first)
    os.closerange(second + 1, _MOST_DESCRIPTORS)
    return first, second
