# SPDX-License-Identifier: Apache-2.0
"""`--until`: starts what waits for a server to be ready (`until`), and says when it was."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time

from netdiag.errors import UsageError

__all__ = ["Until", "checked"]

_DRAIN_S = 1.0


def checked(wanted: str, *, command: bool) -> str:
    """Return what is waited for; UsageError for a pattern that is none, or one without a command."""
    if wanted == "ready" or wanted.startswith(("http://", "https://")):
        return wanted
    try:
        re.compile(wanted)
    except re.error as error:
        raise UsageError(f"--until {wanted}: no regular expression: {error}") from error
    if not command:
        raise UsageError(
            "--until REGEX looks at the output of a command that netdiag starts",
            hint="--until ready, or --until URL",
        )
    return wanted


class Until:
    """The process that waits. `fd` can be read once it came; a command's output passes through it for a pattern."""

    def __init__(self, wanted: str) -> None:
        self.fd, tell = os.pipe()
        self._kept: list[tuple[int, int]] = []
        self._output = wanted != "ready" and not wanted.startswith(("http://", "https://"))
        module = [sys.executable, "-P", "-m", "netdiag.weights.until", str(tell)]
        if not self._output:
            self._process = subprocess.Popen(
                [*module, wanted], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=(tell,), start_new_session=True,
            )  # fmt: skip
            os.close(tell)
            return
        ways = [_way(fd) for fd in (1, 2)]
        sys.stdout.flush()
        sys.stderr.flush()
        self._process = subprocess.Popen(
            [*module, "output", wanted, *(str(read) for read, _ in ways)],
            stdin=subprocess.DEVNULL, pass_fds=(tell, *(read for read, _ in ways)), start_new_session=True,
        )  # fmt: skip
        os.close(tell)
        for fd, (read, write) in zip((1, 2), ways, strict=True):
            os.close(read)
            self._kept.append((fd, os.dup(fd)))
            os.dup2(write, fd)
            os.close(write)

    def watch(self, pid: int) -> None:
        """Say whose readiness is meant."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(f"pid {pid}\n".encode())
                self._process.stdin.flush()

    def stop(self) -> int | None:
        """Return the instant that it came (CLOCK_MONOTONIC, nanoseconds), None where it did not.

        A command that runs on keeps the process that passes on its output; otherwise that ends here.
        """
        came = os.read(self.fd, 32) if select.select([self.fd], [], [], 0)[0] else b""
        os.close(self.fd)
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, kept in self._kept:
            os.dup2(kept, fd)
            os.close(kept)
        if self._output:
            deadline = time.monotonic() + _DRAIN_S
            while not came and self._process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            self._process.returncode = self._process.returncode or 0  # it is left to itself
        else:
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process.kill()
            self._process.wait()
        return int(came) if came.strip().isdigit() else None


def _way(fd: int) -> tuple[int, int]:
    """Return a pipe, or a terminal where `fd` is one: programs write lines at once to a terminal alone."""
    if not os.isatty(fd):
        return os.pipe()
    read, write = pty.openpty()
    with contextlib.suppress(termios.error):
        settings = termios.tcgetattr(write)
        settings[1] &= ~termios.OPOST
        termios.tcsetattr(write, termios.TCSANOW, settings)
        termios.tcsetwinsize(write, termios.tcgetwinsize(fd))
    return read, write
