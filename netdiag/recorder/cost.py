# SPDX-License-Identifier: Apache-2.0
"""What the kernel programs cost, timed in samples: to time every run would itself be a third of the cost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from netdiag.ebpf.syscall import enable_stats

__all__ = ["KernelTime"]

_PERIOD = 10
"""One tick in so many is timed, the first one too: a short trace is timed from end to end."""


class KernelTime:
    """Lets the kernel time its programs in one tick out of ten.

    `written` is always the number of records that the programs wrote so far: what was not timed is estimated from it.
    """

    def __init__(
        self, enable: Callable[[], int | None] = enable_stats, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._enable, self._clock = enable, clock
        self._ticks = 0
        self._fd: int | None = None
        self._began = self._since = clock()
        self._timed_s = 0.0
        self._records = self._timed_records = self._records_since = 0

    def start(self, written: int) -> None:
        """Begin with a timed tick."""
        self._records = written
        self._on(written)

    def tick(self, written: int) -> None:
        """Go on to the next tick."""
        self._ticks += 1
        self._off(written)
        if self._ticks % _PERIOD == 0:
            self._on(written)

    def finish(self, written: int, measured_ns: int) -> float | None:
        """Return the milliseconds that the programs ran in the whole trace, from those measured; None = not known."""
        self._off(written)
        if not self._timed_s:
            return None
        if self._timed_records:
            share = self._timed_records / max(written - self._records, self._timed_records)
        else:
            share = self._timed_s / max(self._clock() - self._began, self._timed_s)
        return round(measured_ns / share / 1e6, 3)

    def _on(self, written: int) -> None:
        self._fd = self._enable()
        self._since, self._records_since = self._clock(), written

    def _off(self, written: int) -> None:
        if self._fd is None:
            return
        os.close(self._fd)
        self._fd = None
        self._timed_s += self._clock() - self._since
        self._timed_records += written - self._records_since
