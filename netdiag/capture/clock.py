# SPDX-License-Identifier: Apache-2.0
"""Time stamps put in order: a capture's clock may be set back, and several queues may be written out of turn. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Clock"]

Ints = NDArray[np.int64]

_DISORDER_NS = 50_000_000
"""Packets that lie this little before their neighbour were written out of turn; more, and the clock was set back."""
_ABSURD_NS = 3_600_000_000_000
_FARTHEST_NS = 1 << 61
"""By so much a clock may have been set back in all; with the latest stamp of a file it is still a number."""


class Clock:
    """Makes stamps that never run backwards, batch by batch."""

    def __init__(self) -> None:
        self._shift = 0
        self._last: int | None = None
        self.set_back = 0
        """How often the clock was set back: what lies across that moment is too short by an unknown amount."""
        self.absurd = 0
        """Stamps of single packets that no neighbour agrees with."""

    def settle(self, time: Ints) -> Ints:
        """Return the stamps, shifted so that no clock was ever set back; they may be out of order by milliseconds."""
        if not len(time):
            return time
        time = time + self._shift
        before = np.append(time[0] if self._last is None else self._last, time[:-1])
        step = time - before
        if (step < 0).any():
            time = self._mend(time, step)
        self._last = int(time[-1]) if self._last is None else max(int(time.max()), self._last)
        return time

    def _mend(self, time: Ints, step: Ints) -> Ints:
        alone = np.zeros(len(time), bool)
        alone[:-1] = (step[:-1] > _ABSURD_NS) & (step[1:] < -_ABSURD_NS)
        if alone.any():
            self.absurd += int(np.count_nonzero(alone))
            keep = np.maximum.accumulate(np.where(alone, 0, np.arange(len(time))))
            time = time[keep]
            before = np.append(time[0] if self._last is None else self._last, time[:-1])
            step = time - before
        back = step < -_DISORDER_NS
        if back.any():
            self.set_back += int(np.count_nonzero(back))
            shift = np.cumsum(np.where(back, -step, 0))
            if (shift[1:] < shift[:-1]).any() or int(shift[-1]) + self._shift > _FARTHEST_NS:
                # stamps that jump by centuries are no clock's: from there on they may lie anywhere
                shift = np.minimum(np.cumsum(np.where(back, -step, 0).astype(np.float64)), float(_FARTHEST_NS))
                shift = np.minimum(shift.astype(np.int64), _FARTHEST_NS - self._shift)
            time = time + shift
            self._shift += int(shift[-1])
        return time
