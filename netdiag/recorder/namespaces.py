# SPDX-License-Identifier: Apache-2.0
"""The network namespaces that the traced processes live in: a walk over sockets sees only the one it is made in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

__all__ = ["Namespaces"]

_MOST = 128
"""Namespaces that are looked at; a walk in each takes some 10 us."""
_MOST_HOLDERS = 16
"""Processes remembered per namespace, the latest: one that still lives is enough."""


class Namespaces:
    """Who was seen in which namespace. None is held open: one that its processes left may go."""

    def __init__(self) -> None:
        self._own = os.stat("/proc/self/ns/net").st_ino
        self._holders: dict[int, list[int]] = {}

    def note(self, pid: int) -> None:
        """Remember where a process is now; nothing when it is gone, not ours to look at, or in our own namespace."""
        inode = _inode(pid)
        if inode is None or inode == self._own or (inode not in self._holders and len(self._holders) >= _MOST):
            return
        holders = self._holders.setdefault(inode, [])
        if pid not in holders:
            holders.append(pid)
            del holders[:-_MOST_HOLDERS]

    def note_all(self, pids: Iterable[int]) -> None:
        """Remember where the given processes are, or all of the machine where none is given."""
        for pid in list(pids) or [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]:
            self.note(pid)

    def paths(self) -> Iterator[str]:
        """Yield one path for each namespace in which a process still is; forget the others."""
        for inode, holders in list(self._holders.items()):
            present = [pid for pid in holders if _inode(pid) == inode]
            if present:
                self._holders[inode] = present
                yield f"/proc/{present[-1]}/ns/net"
            else:
                del self._holders[inode]


def _inode(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None
