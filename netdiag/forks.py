# SPDX-License-Identifier: Apache-2.0
"""Work on numbered pieces in two processes that begin as copies of this one; results come back in order."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import TypeVar

from netdiag.errors import NetdiagError

__all__ = ["each"]

_WORKERS = 2
"""More would need more memory than what they work on: each holds one piece."""

T = TypeVar("T")


def each(work: Callable[[int], T], count: int) -> Iterator[T]:
    """Yield what `work` returns for 0, 1, … in order.

    On one processor, for one piece, or on another system than Linux it is done here. What a piece needed is given
    back when its process ends. Errors of `work` are raised here.
    """
    workers = min(_WORKERS, len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1, count)
    if workers < 2:
        yield from map(work, range(count))
        return
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
            try:
                error, result = ends[number % workers].recv()
            except EOFError as ended:
                raise NetdiagError("a process that shared the work ended before it was done") from ended
            if error is not None:
                raise error
            yield result
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.terminate()
            process.join()


def _serve(there: Connection, work: Callable[[int], T], numbers: range) -> None:
    try:
        for number in numbers:
            there.send((None, work(number)))
    except BrokenPipeError:  # whoever waited for it has gone
        return
    except Exception as error:  # noqa: BLE001 - it is raised where the work was asked for
        there.send((error, None))
