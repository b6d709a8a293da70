# SPDX-License-Identifier: Apache-2.0
"""Work on numbered pieces in two processes that begin as copies of this one; results come back in order."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from netdiag.errors import NetdiagError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["apart", "can_fork", "each"]

_WORKERS = 2
"""More would need more memory than what they work on: each holds one piece."""

T = TypeVar("T")


def can_fork() -> bool:
    """Tell whether a copy of this process may go on by itself; some libraries of other systems do not allow for it."""
    return sys.platform == "linux"


def apart(work: Callable[[Callable[..., None]], T], heard: Callable[..., None] | None = None) -> T:
    """Return what `work` returns, done in another process: what it needed is given back when that ends.

    `work` gets a function that passes on to `heard` what it is called with. Errors of `work` are raised here.
    """
    import multiprocessing  # nobody waits for it who has one small file

    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_alone, args=(there, work), daemon=True)
    process.start()
    there.close()
    try:
        while True:
            said, error, result = _received(here)
            if said is None:
                break
            if heard is not None:
                heard(*said)
    finally:
        here.close()
        process.terminate()
        process.join()
    if error is not None:
        raise error
    return cast("T", result)


def _alone(there: Connection, work: Callable[[Callable[..., None]], Any]) -> None:
    _answer(there, lambda: there.send((None, None, work(lambda *said: there.send((said, None, None))))))


def _received(here: Connection) -> Any:
    try:
        return here.recv()
    except EOFError as ended:
        raise NetdiagError("a process that shared the work ended before it was done") from ended


def _answer(there: Connection, work: Callable[[], None]) -> None:
    """Do some work; its errors are raised where it was asked for."""
    try:
        work()
    except (BrokenPipeError, KeyboardInterrupt):  # whoever waited for it has gone, or is told as well
        return
    except Exception as error:  # noqa: BLE001
        there.send((None, error, None))


def each(work: Callable[[int], T], count: int) -> Iterator[T]:
    """Yield what `work` returns for 0, 1, … in order.

    On one processor, for one piece, or on another system than Linux it is done here. What a piece needed is given
    back when its process ends. Errors of `work` are raised here.
    """
    workers = min(_WORKERS, len(os.sched_getaffinity(0)) if can_fork() else 1, count)
    if workers < 2:
        yield from map(work, range(count))
        return
    import multiprocessing  # nobody waits for it who has one small file

    context = multiprocessing.get_context("fork")
    ends: list[Connection] = []
    processes = []
    try:
        for first in range(workers):
            here, there = context.Pipe(duplex=False)
            ends.append(here)
            process = context.Process(target=_serve, args=(there, work, range(first, count, workers)), daemon=True)
            process.start()
            processes.append(process)
            there.close()  # so that the end of the process is the end of the pipe
        for number in range(count):
            _, error, result = _received(ends[number % workers])
            if error is not None:
                raise error
            yield result
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.terminate()
            process.join()


def _serve(there: Connection, work: Callable[[int], Any], numbers: range) -> None:
    def serve() -> None:
        for number in numbers:
            there.send((None, None, work(number)))

    _answer(there, serve)
