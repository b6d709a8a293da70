# SPDX-License-Identifier: Apache-2.0
"""Where the front and the recorder meet: a socket in a directory that only its maker can enter."""

from __future__ import annotations

import os
import select
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from netdiag.recorder.link import Link, Peer

__all__ = ["Rendezvous"]

_SUN_PATH_BYTES = 107
"""The longest path that the address of a Unix socket holds."""


class Rendezvous:
    """The front's side before the recorder is there: a private directory with a listening socket in it."""

    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="netdiag-", dir=_private_parent())
        self.path = f"{self._directory}/s"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._listener.bind(self.path)
            self._listener.listen(4)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the listening descriptor: readable means that somebody connected."""
        return self._listener.fileno()

    def accept(self, is_recorder: Callable[[Peer], bool], *, timeout_s: float) -> Link:
        """Return the link to the first peer that `is_recorder` recognises; others are hung up on.

        Raises TimeoutError when none came within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._listener], [], [], left)[0]:
                raise TimeoutError(f"the recorder did not connect within {timeout_s:.1f} s")
            link = Link(self._listener.accept()[0])
            if is_recorder(link.peer):
                return link
            link.close()

    def close(self) -> None:
        """Stop listening and remove the directory; links made before stay open."""
        self._listener.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _private_parent() -> str:
    """Return where a private directory goes: the user's runtime directory, else the temporary one."""
    candidates = (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp")  # noqa: S108 - mkdtemp, 0700
    for path in candidates:
        if _is_usable(path):
            return path
    raise FileNotFoundError("no directory in which a private one could be made")


def _is_usable(path: str) -> bool:
    """Say whether `path` is ours (or sticky), writable, and short enough for a socket's name in it."""
    if not path.startswith("/") or len(os.fsencode(path)) + len("/netdiag-xxxxxxxx/s") > _SUN_PATH_BYTES:
        return False
    try:
        found = Path(path).stat()
    except OSError:
        return False
    safe = found.st_uid == os.geteuid() or (found.st_uid == 0 and bool(found.st_mode & stat.S_ISVTX))
    return stat.S_ISDIR(found.st_mode) and safe and os.access(path, os.W_OK | os.X_OK)
