# SPDX-License-Identifier: Apache-2.0
"""The classic experiment: read() into memory against mmap and copy, warm and, on a copy of the file, cold.

Each run is a process of its own, so that its page faults are its own. Nothing of the system's is changed: only a copy
that was made for it is brought out of memory, by POSIX_FADV_DONTNEED on that file alone.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from netdiag.errors import InputUnreadable, NetdiagError
from netdiag.units import format_bytes, format_ms
from netdiag.weights.residency import residency

__all__ = ["METHODS", "Run", "compare", "forget", "in_child", "to_json", "why"]

_PIECE = 1 << 20
_REPEATS = 3
_PAGE = mmap.PAGESIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The fastest of the runs of one method."""

    method: str
    state: str
    """cold, warm."""
    ms: float
    user_ms: float
    system_ms: float
    minor_faults: int
    major_faults: int
    device_bytes: int | None
    cached: float | None
    """Share of the file in memory before; None where the kernel does not say."""

    @property
    def blocked_ms(self) -> float:
        """Time not on a processor: waiting for the file, or for a processor."""
        return max(0.0, self.ms - self.user_ms - self.system_ms)


_NEW = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
"""Memory as malloc() gets it for large pieces."""


def _read_fresh(fd: int, size: int) -> None:
    with mmap.mmap(-1, size, flags=_NEW) as to:
        view = memoryview(to)
        for at in range(0, size, _PIECE):
            os.preadv(fd, [view[at : at + _PIECE]], at)
        view.release()


def _read_reused(fd: int, size: int) -> None:
    with mmap.mmap(-1, _PIECE, flags=_NEW) as to:
        view = memoryview(to)
        for at in range(0, size, _PIECE):
            os.preadv(fd, [view[: min(_PIECE, size - at)]], at)
        view.release()


def _mapped_copied(fd: int, size: int) -> None:
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as of, mmap.mmap(-1, size, flags=_NEW) as to:
        from_, into = memoryview(of), memoryview(to)
        for at in range(0, size, 32 * _PIECE):
            into[at : at + 32 * _PIECE] = from_[at : at + 32 * _PIECE]
        from_.release()
        into.release()


def _mapped_touched(fd: int, size: int) -> None:
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as of:
        for at in range(0, size, _PAGE):
            of[at]


METHODS: Mapping[str, tuple[str, Callable[[int, int], None]]] = {
    "read": ("read(1 MiB) into new memory", _read_fresh),
    "read-reused": ("read(1 MiB) into one buffer", _read_reused),
    "mmap-copy": ("mmap, copied to new memory", _mapped_copied),
    "mmap": ("mmap, a byte of each page", _mapped_touched),
}
"""Name → words and what it does."""


def compare(path: Path, *, cold: bool = False, repeats: int = _REPEATS) -> list[Run]:
    """Return the runs, warm ones of the file itself; with `cold` also of a copy beside it, which is removed again.

    Raises InputUnreadable where the file cannot be read, NetdiagError where there is no room for a copy.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise InputUnreadable(f"{path}: {error.strerror}") from error
    try:
        size = os.fstat(fd).st_size
        if not size:
            raise InputUnreadable(f"{path} is empty")
        runs = []
        if cold:
            with _copy(path, size) as copy:
                runs += [_best(name, "cold", copy, size, repeats, prepare=forget) for name in METHODS]
        _read_reused(fd, size)
        runs += [_best(name, "warm", fd, size, repeats) for name in METHODS]
        return runs
    finally:
        os.close(fd)


@contextlib.contextmanager
def _copy(path: Path, size: int) -> Iterator[int]:
    folder = path.resolve().parent
    room = os.statvfs(folder)
    if room.f_bavail * room.f_frsize < 1.1 * size:
        raise NetdiagError(f"a cold run needs a copy of {format_bytes(size)}, and {folder} has no room for it")
    try:
        with path.open("rb") as source, tempfile.TemporaryFile(dir=folder) as copy:
            while piece := source.read(_PIECE):
                copy.write(piece)
            copy.flush()
            os.fsync(copy.fileno())
            yield copy.fileno()
    except OSError as error:
        raise NetdiagError(f"no copy could be made in {folder}: {error.strerror}") from error


def forget(fd: int) -> None:
    """Bring the pages of a file out of memory, those that nobody has mapped or changed."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _best(name: str, state: str, fd: int, size: int, repeats: int, prepare: Callable[[int], None] | None = None) -> Run:
    found = []
    for _ in range(repeats):
        if prepare is not None:
            prepare(fd)
        held = residency(fd)
        measured = in_child(lambda: METHODS[name][1](fd, size))
        cached = None if held is None else min(held.cached / size, 1.0)
        found.append(Run(method=name, state=state, cached=cached, **measured))
    return min(found, key=lambda run: run.ms)


def in_child(action: Callable[[], None]) -> dict[str, Any]:
    """Do it in a process of its own; return what it took: ms, user_ms, system_ms, faults, device_bytes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            os.write(writer, json.dumps(_measured(action)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        text = file.read()
    os.waitpid(child, 0)
    if not text:
        raise NetdiagError("a run ended early: was the file cut meanwhile, or is memory short?")
    measured: dict[str, Any] = json.loads(text)
    return measured


def _measured(action: Callable[[], None]) -> dict[str, Any]:
    before, read_before = resource.getrusage(resource.RUSAGE_SELF), _device_bytes()
    began = time.monotonic_ns()
    action()
    took = time.monotonic_ns() - began
    after, read_after = resource.getrusage(resource.RUSAGE_SELF), _device_bytes()
    return {
        "ms": took / 1e6,
        "user_ms": (after.ru_utime - before.ru_utime) * 1e3,
        "system_ms": (after.ru_stime - before.ru_stime) * 1e3,
        "minor_faults": after.ru_minflt - before.ru_minflt,
        "major_faults": after.ru_majflt - before.ru_majflt,
        "device_bytes": None if read_before is None or read_after is None else read_after - read_before,
    }


def _device_bytes() -> int | None:
    try:
        for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
    except (OSError, ValueError):
        return None
    return None


def why(runs: list[Run], size: int) -> list[str]:
    """Return sentences on what makes the difference between the methods."""
    by = {(run.state, run.method): run for run in runs}
    words = []
    for state in ("cold", "warm"):
        read, copied = by.get((state, "read")), by.get((state, "mmap-copy"))
        reused = by.get((state, "read-reused"))
        if read is None or copied is None or reused is None or not read.ms:
            continue
        ratio = copied.ms / read.ms
        words.append(
            f"{state}: mmap and copy takes {ratio:.2f} times read(): {format_ms(copied.ms)} against "
            f"{format_ms(read.ms)}, "
            f"{copied.minor_faults + copied.major_faults:,} faults against {read.minor_faults + read.major_faults:,}"
        )
        pages = size / _PAGE
        if read.minor_faults > 0.8 * pages and read.ms > 1.3 * reused.ms:
            words.append(
                f"{state}: most faults of read() are in its new memory, not in the file: into one buffer it takes "
                f"{format_ms(reused.ms)} with {reused.minor_faults:,}"
            )
        if state == "cold" and copied.blocked_ms > 1.5 * read.blocked_ms and copied.blocked_ms > 0.3 * copied.ms:
            words.append(
                f"{state}: the copy waits {format_ms(copied.blocked_ms)} in faults, read() {format_ms(read.blocked_ms)}"
            )
        if state == "cold" and copied.major_faults < 10 <= copied.blocked_ms:
            words.append(
                f"cold: {copied.major_faults} faults count as major and hide {format_ms(copied.blocked_ms)} of waiting"
            )
    return words


def to_json(run: Run) -> dict[str, Any]:
    """Return a run as plain values."""
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(run).items()}
