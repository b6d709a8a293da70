# SPDX-License-Identifier: Apache-2.0
"""Large files that a process has open or mapped, and how they come into memory: cachestat(2), nothing is read."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from netdiag.weights.residency import residency
from netdiag.weights.tasks import Process

__all__ = ["Held", "Holdings"]

LEAST_BYTES = 1 << 20
_MOST_FILES = 64
_PARTS = 64
_FULL = 0.5
"""A part of a file has come once so much of it is in memory."""
_NAMES = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".ggml", ".npz", ".npy")


@dataclass(slots=True)
class Held:
    """One file of one process; None = the kernel does not say."""

    pid: int
    path: str
    device: int
    inode: int
    size: int
    began_ns: int
    ended_ns: int
    cached_first: int | None
    cached_last: int | None
    evicted: int | None = None
    mapped: bool = False
    opened: bool = False
    forward: int = 0
    backward: int = 0
    near: int = 0
    fd: int = -1
    _come: set[int] = field(default_factory=set)
    _at: int | None = None

    def look(self, now: int) -> None:
        """Ask what of it is in memory; where that grew, which parts came."""
        found = residency(self.fd) if self.fd >= 0 else None
        if found is None:
            return
        cached = min(found.cached, self.size)
        self.evicted = found.recently_evicted
        self.ended_ns = now
        if cached != self.cached_last:
            self.cached_last = cached
            self.walk()

    def walk(self, *, first: bool = False) -> None:
        """Note which parts came since the last look; with `first` those that were there before."""
        step = -(-self.size // _PARTS)
        if step < 65_536:
            return
        new = []
        for part in set(range(-(-self.size // step))) - self._come:
            length = min(step, self.size - part * step)
            found = residency(self.fd, part * step, length)
            if found is not None and found.cached >= _FULL * length:
                new.append(part)
        self._come |= set(new)
        if first or not new:
            return
        # of parts that came between two looks the order is not known: the group counts once, by its middle
        at = sum(new) // len(new)
        if self._at is not None and at != self._at:
            if at > self._at:
                self.forward += 1
            else:
                self.backward += 1
            self.near += abs(at - self._at) <= len(new) + 4
        self._at = at


@dataclass(slots=True)
class Holdings:
    """The files of all processes."""

    held: dict[tuple[int, int, int], Held] = field(default_factory=dict)
    expected: dict[tuple[int, int], int | None] = field(default_factory=dict)
    """(device, inode) → bytes in memory before anything ran."""

    def expect(self, path: str) -> None:
        """Look at a file, or the weights in a folder, before somebody loads them."""
        whole = Path(path)
        with contextlib.suppress(OSError, ValueError):
            if whole.is_dir():
                files = [one for one in sorted(whole.iterdir())[:1024] if one.name.endswith(_NAMES)][:_MOST_FILES]
            else:
                files = [whole]
            for one in files:
                status = one.stat()
                if not stat.S_ISREG(status.st_mode) or status.st_size < LEAST_BYTES:
                    continue
                fd = os.open(one, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                found = residency(fd)
                os.close(fd)
                self.expected[(_device(status.st_dev), status.st_ino)] = found.cached if found else None

    def look(self, process: Process, now: int, *, thorough: bool) -> None:
        """Look at the files of one process; with `thorough` at its mappings as well."""
        mine = [one for key, one in self.held.items() if key[0] == process.pid]
        for one in mine:
            one.look(now)
        if len(mine) >= _MOST_FILES:
            return
        folder = process.proc / str(process.pid)
        for path in _opened(folder):
            self._meet(process.pid, path, now, folder).opened = True
        if thorough or not mine:
            for name in _mapped(folder):
                found = self._meet(process.pid, name, now, folder)
                found.mapped = True

    def _meet(self, pid: int, path: str, now: int, folder: Path) -> Held:
        none = Held(pid=pid, path=path, device=0, inode=0, size=0, began_ns=now, ended_ns=now, cached_first=None,
                    cached_last=None)  # fmt: skip
        fd = -1
        for way in (path, f"{folder}/root{path}"):
            try:
                status = Path(way).stat()
                if not stat.S_ISREG(status.st_mode) or status.st_size < LEAST_BYTES:
                    return none
                key = (pid, _device(status.st_dev), status.st_ino)
                if key in self.held:
                    return self.held[key]
                fd = os.open(way, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
                break
            except (OSError, ValueError):
                continue
        if fd < 0:
            return none
        found = residency(fd)
        cached = min(found.cached, status.st_size) if found else None
        before = self.expected.get(key[1:], cached)
        made = Held(pid=pid, path=path, device=key[1], inode=key[2], size=status.st_size, began_ns=now, ended_ns=now,
                    cached_first=before, cached_last=cached, evicted=found.recently_evicted if found else None,
                    fd=fd)  # fmt: skip
        if found:
            made.walk(first=True)
        self.held[key] = made
        return made

    def let_go(self, pid: int) -> None:
        """Close the files of a process that ended."""
        for key, one in self.held.items():
            if key[0] == pid and one.fd >= 0:
                one.look(one.ended_ns)
                os.close(one.fd)
                one.fd = -1

    def all(self) -> Iterator[Held]:
        """Yield all files."""
        yield from self.held.values()


def _device(number: int) -> int:
    return os.major(number) << 20 | os.minor(number)


def _opened(folder: Path) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for link in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):
                path = str(link.readlink())
                if path.startswith("/") and not path.startswith(("/dev/", "/proc/", "/sys/")):
                    found.add(path)
    return found


def _mapped(folder: Path) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(OSError):
        program = str((folder / "exe").readlink())
        for line in (folder / "maps").read_bytes().splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[5].startswith(b"/") and b".so" not in fields[5]:
                begin, _, end = fields[0].partition(b"-")
                if int(end, 16) - int(begin, 16) >= LEAST_BYTES:
                    found.add(os.fsdecode(fields[5]))
        found.discard(program)
    return found
