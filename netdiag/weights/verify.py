# SPDX-License-Identifier: Apache-2.0
"""What `--verify` does: the way a file was read is done again on the same file, as it was and with the change.

Each run is a process of its own. Nothing is changed on the machine; pages leave memory only where that was allowed,
by POSIX_FADV_DONTNEED on the file alone.
"""

from __future__ import annotations

import mmap
import os
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from netdiag.errors import InputUnreadable
from netdiag.weights.compare import forget, in_child
from netdiag.weights.residency import residency

__all__ = ["PLANS", "Pattern", "Plan", "Verified", "do", "plan_for", "to_json", "verify"]

_PAGE = mmap.PAGESIZE
_MIB = 1 << 20
_MOST_BYTES = 1 << 30
"""So much of a file is read, from its start."""
_NEW = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_COLD = 0.1
"""With so little of it in memory a run counts as cold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A way to read a file."""

    words: str
    how: str
    """mmap (a byte of each page), read."""
    order: str = "forward"
    size: int = _MIB
    """Of a read."""
    threads: int = 1
    fresh: bool = False
    """Into memory that was never used."""
    advice: int | None = None
    direct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What was done, and what is to be done instead."""

    before: Pattern
    after: Pattern
    needs_cold: bool
    """Only a file that is not in memory shows the difference."""


_PREAD = Pattern(words="pread() of 16 MiB", how="read", size=16 * _MIB)
_SIDE_BY_SIDE = Pattern(words="8 threads, pread() of 16 MiB", how="read", size=16 * _MIB, threads=8)
_FORWARD = Pattern(words="mmap, forward", how="mmap")

PLANS: Mapping[str, Plan] = {
    "weights.backward-walk": Plan(
        before=Pattern(words="mmap, backward", how="mmap", order="backward"), after=_PREAD, needs_cold=True
    ),
    "weights.readahead-off": Plan(
        before=Pattern(words="mmap, MADV_RANDOM", how="mmap", advice=mmap.MADV_RANDOM), after=_FORWARD, needs_cold=True
    ),
    "weights.readahead-small": Plan(before=_FORWARD, after=_PREAD, needs_cold=True),
    "weights.network-filesystem": Plan(before=_FORWARD, after=_SIDE_BY_SIDE, needs_cold=True),
    "weights.random-amplification": Plan(
        before=Pattern(words="mmap, random order", how="mmap", order="random"), after=_FORWARD, needs_cold=True
    ),
    "weights.small-reads": Plan(
        before=Pattern(words="read() of 4 KiB", how="read", size=_PAGE),
        after=Pattern(words="read() of 1 MiB", how="read"),
        needs_cold=False,
    ),
    "weights.destination-first-touch": Plan(
        before=Pattern(words="read() into new memory", how="read", fresh=True),
        after=Pattern(words="read() into one buffer", how="read"),
        needs_cold=False,
    ),
    "weights.direct-io": Plan(
        before=Pattern(words="O_DIRECT, 128 KiB", how="read", size=_MIB // 8, direct=True), after=_PREAD,
        needs_cold=False,
    ),
}  # fmt: skip
"""Code → how its cause and its advice are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Two measured runs, the faster of the repeats each."""

    code: str
    file: str
    bytes: int
    state: str
    """cold: out of memory before each run; warm: in memory; as-it-was: part of it was in memory, and stayed."""
    before: str
    after: str
    before_ms: float
    after_ms: float


def plan_for(code: str) -> Plan | None:
    """Return what can be measured for a finding, None for one that only a change of the machine would show."""
    return PLANS.get(code)


def verify(code: str, path: str, *, cold: bool, repeats: int = 2) -> Verified:
    """Return the measured difference; `cold`: the file's pages may leave memory before each run.

    Raises InputUnreadable where the file cannot be read.
    """
    plan = PLANS[code]
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise InputUnreadable(f"{path}: {error.strerror}") from error
    try:
        size = min(os.fstat(fd).st_size, _MOST_BYTES) // _PAGE * _PAGE
        if not size:
            raise InputUnreadable(f"{path} is shorter than a page")
        shares: list[float | None] = []
        times = {}
        for name, pattern in (("before", plan.before), ("after", plan.after)):
            found = []
            for _ in range(repeats):
                if cold:
                    forget(fd)
                held = residency(fd, 0, size)
                shares.append(None if held is None else held.cached / size)
                found.append(in_child(_bound(pattern, path, size))["ms"])
            times[name] = min(found)
    finally:
        os.close(fd)
    return Verified(
        code=code, file=path, bytes=size, state=_state(shares), before=plan.before.words, after=plan.after.words,
        before_ms=times["before"], after_ms=times["after"],
    )  # fmt: skip


def _bound(pattern: Pattern, path: str, size: int) -> Callable[[], None]:
    return lambda: do(pattern, path, size)


def _state(shares: list[float | None]) -> str:
    known = [share for share in shares if share is not None]
    if len(known) == len(shares) and max(known) <= _COLD:
        return "cold"
    return "warm" if len(known) == len(shares) and min(known) >= 1 - _COLD else "as-it-was"


def do(pattern: Pattern, path: str, size: int) -> None:
    """Read the first `size` bytes of a file in one way."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_DIRECT if pattern.direct else 0))
    try:
        if pattern.how == "mmap":
            _touch(pattern, fd, size)
            return
        step = -(-size // pattern.threads // _MIB) * _MIB
        parts = [(at, min(at + step, size)) for at in range(0, size, step)]
        if len(parts) == 1:
            _read(pattern, fd, *parts[0])
            return
        threads = [threading.Thread(target=_read, args=(pattern, fd, *part)) for part in parts]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        os.close(fd)


def _touch(pattern: Pattern, fd: int, size: int) -> None:
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as of:
        if pattern.advice is not None:
            of.madvise(pattern.advice)
        places = list(range(0, size, _PAGE))
        if pattern.order == "backward":
            places.reverse()
        elif pattern.order == "random":
            random.Random(1).shuffle(places)  # noqa: S311 - an order, no secret
        for at in places:
            of[at]


def _read(pattern: Pattern, fd: int, begin: int, end: int) -> None:
    """Read a part; a buffer of one's own is used again unless it is to be new each time."""
    length = end - begin if pattern.fresh else pattern.size
    with mmap.mmap(-1, length, flags=_NEW) as to:
        view = memoryview(to)
        try:
            for at in range(begin, end, pattern.size):
                into = at - begin if pattern.fresh else 0
                os.preadv(fd, [view[into : into + min(pattern.size, end - at)]], at)
        finally:
            view.release()


def to_json(one: Verified) -> dict[str, Any]:
    """Return it as the document has it."""
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(one).items()}
