# SPDX-License-Identifier: Apache-2.0
"""Signals as events among others: one call waits for descriptors, a deadline and Ctrl-C."""

from __future__ import annotations

import select
import signal
import socket
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

__all__ = ["Readable", "Signals"]

_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Readable(Protocol):
    """Anything with a descriptor to wait for."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


class Signals:
    """Catches SIGINT, SIGTERM and SIGHUP while it is entered; the handlers of before come back afterwards.

    A SIGHUP that the caller ignores (nohup) stays ignored. Outside the main thread nothing is caught.
    """

    def __init__(self, *, also: Sequence[signal.Signals] = ()) -> None:
        self._numbers = (*_CAUGHT, *also)
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def wait(self, waited: Sequence[Readable | int], timeout_s: float | None) -> tuple[list[Any], list[int]]:
        """Return which of `waited` can be read and which signals came, both empty after `timeout_s`."""
        poll = select.poll()
        places: dict[int, Readable | int] = {one if isinstance(one, int) else one.fileno(): one for one in waited}
        for fd in (*places, self._reader.fileno()):
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(None if timeout_s is None else max(timeout_s, 0.0) * 1000.0)}
        caught = list(self._reader.recv(64)) if self._reader.fileno() in ready else []
        return [one for fd, one in places.items() if fd in ready], caught

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
            for number in self._numbers:
                if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, _caught)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if self._before:
            signal.set_wakeup_fd(self._wakeup_before)
        self._reader.close()
        self._writer.close()


def _caught(number: int, frame: FrameType | None) -> None:
    """Do nothing: the wake-up descriptor has told the loop already."""
