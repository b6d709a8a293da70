# SPDX-License-Identifier: Apache-2.0
"""CMD: forked first, so that its pid is known, and held back until the probes are armed, so that nothing is missed.

It is started as a shell would: in the caller's process group (Ctrl-C reaches it), with the caller's environment,
working directory, descriptors and signal dispositions.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from netdiag.privilege import User, become

__all__ = ["NOT_EXECUTABLE", "NOT_FOUND", "Command", "Located", "locate"]

NOT_FOUND = 127
NOT_EXECUTABLE = 126

_GO = b"g"
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores from its start on; a command expects the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """What a command's name means under a search path."""

    path: str | None
    """None where there is nothing to execute."""
    status: int
    """0, or the status of a shell that could not run it: 126 or 127."""


def locate(name: str, search_path: str) -> Located:
    """Return which file would be executed for `name`; a name with a slash is a path. Closed folders are passed over."""
    if "/" in name:
        candidates = [name]
    else:
        candidates = [f"{folder or '.'}/{name}" for folder in search_path.split(":")] if name else []
    existing = [path for path in candidates if os.path.exists(path)]  # noqa: PTH110 - pathlib raises at closed folders
    files = [path for path in existing if not os.path.isdir(path)]  # noqa: PTH112
    for path in files:
        if os.access(path, os.X_OK):
            return Located(path=path, status=0)
    return Located(path=None, status=NOT_EXECUTABLE if files or ("/" in name and existing) else NOT_FOUND)


class Command:
    """A child process that waits to become CMD. Readable (`fileno`) once it has ended."""

    def __init__(
        self, argv: Sequence[str], path: str, environment: Mapping[bytes, bytes], *, user: User | None
    ) -> None:
        """Fork the child; it is `user` (None = as this process is) and waits.

        The signals are blocked around the fork, for until the child has its own dispositions it has ours.
        """
        self.path = path
        """Which file it will execute."""
        gate, self._gate = os.pipe()
        self._failure, failure = os.pipe()
        ignored = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
        if ignored:  # the kernel would throw CMD's status away
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid = os.fork()
            if self.pid == 0:
                os.close(self._gate)
                if ignored:
                    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
                _child(argv, path, environment, user=user, mask=mask, gate=gate, failure=failure)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(gate)
        os.close(failure)
        self._pidfd = os.pidfd_open(self.pid)
        self._status: int | None = None

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when CMD ends."""
        return self._pidfd

    def release(self) -> str | None:
        """Let the child become CMD; return why it could not, or None once it has."""
        with contextlib.suppress(BrokenPipeError):  # it was killed while it waited
            os.write(self._gate, _GO)
        self._close_gate()
        number = os.read(self._failure, 4)
        return os.strerror(int.from_bytes(number, "little")) if number else None

    def status(self) -> int | None:
        """Return how CMD ended, 128 + n when killed by signal n, or None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self._status = code if code >= 0 else 128 - code
        return self._status

    def close(self) -> None:
        """Let go: a child that still waits ends without having become CMD, a running CMD runs on."""
        waited = self._gate >= 0
        self._close_gate()
        if waited and self._status is None:
            os.waitpid(self.pid, 0)
        os.close(self._failure)
        os.close(self._pidfd)

    def _close_gate(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1


def _child(
    argv: Sequence[str],
    path: str,
    environment: Mapping[bytes, bytes],
    *,
    user: User | None,
    mask: Iterable[int],
    gate: int,
    failure: int,
) -> NoReturn:
    """Wait at the gate, then become CMD; tell the errno where that fails. Never returns into the front's code."""
    status = NOT_EXECUTABLE
    try:
        _restore_signals(mask)
        if user is not None:
            become(user)
        if os.read(gate, 1) != _GO:  # the front is gone, or gave up
            os._exit(0)
        _execute(path, argv, environment)
    except OSError as error:
        status = NOT_FOUND if error.errno == errno.ENOENT else NOT_EXECUTABLE
        os.write(failure, (error.errno or errno.EINVAL).to_bytes(4, "little"))
    finally:
        os._exit(status)


def _execute(path: str, argv: Sequence[str], environment: Mapping[bytes, bytes]) -> NoReturn:
    """Replace this process; a script without a first line for the kernel is the shell's, as execvp has it."""
    try:
        os.execve(path, list(argv), environment)  # noqa: S606 - CMD is run as given, no shell in between
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execve("/bin/sh", [argv[0], path, *argv[1:]], environment)  # noqa: S606


def _restore_signals(mask: Iterable[int]) -> None:
    """Give signals their default meaning again, except those that the caller had ignored before us."""
    for number in _RESTORED:
        signal.signal(number, signal.SIG_DFL)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
