# SPDX-License-Identifier: Apache-2.0
"""Follows a recording in a thread and makes snapshots of it, at most twice a second.

What a snapshot costs decides when the next one comes: it stays under a tenth of a processor. The examination, which
costs most, is made of what `window` keeps and at its own pace; figures and sparklines come at every turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from netdiag.errors import InputUnreadable
from netdiag.recording import reader
from netdiag.recording.reader import Recording
from netdiag.tui import aggregate, exact, opening
from netdiag.tui.examine import examine
from netdiag.tui.ledger import Ledger
from netdiag.tui.loads import Loads
from netdiag.tui.model import Examination, Snapshot, State, key
from netdiag.tui.window import Window

log = logging.getLogger(__name__)

__all__ = ["TICK_S", "Follower"]

TICK_S = 0.5
STEPS = 60
"""Of a sparkline."""
_SHARE = 0.1
"""Of a processor that examining a growing recording may take."""
_LIVE_RECORDS, _FINISHED_RECORDS = 8_000, 40_000
"""So many records are examined at once: a second or less of work while the recording grows."""
_LIVE_CALLS = 30_000
"""Newest requests whose figures are shown while the recording grows faster than it can be examined."""
_PIECE_BYTES = 2 << 20
"""Of a finished recording, read at once: more would only be in memory."""
_QUIET_S = 10.0
"""A recording that is written to says something at least once a second; after so long it is called quiet."""


class Follower:
    """Reads one recording; `run` returns when it has ended and was shown, or after `stop`."""

    def __init__(
        self,
        path: Path,
        post: Callable[[Snapshot], None],
        *,
        grows: bool = False,
        alive: Callable[[], bool] | None = None,
        slow_ms: float = 500.0,
    ) -> None:
        """`grows`: wait for more where the recording has no end; `alive` tells whether its writer still runs."""
        self._path, self._post = path, post
        self._grows, self._alive, self._slow_ms = grows, alive, slow_ms
        self._stop = threading.Event()
        self.ledger = Ledger(_LIVE_CALLS) if grows else Ledger()
        self.window = Window(_LIVE_RECORDS if grows else _FINISHED_RECORDS)
        self.loads = Loads()
        self._exam: Examination | None = None
        self._exam_records = -1
        self._exam_at = 0.0
        self._last = Snapshot()
        self._dead = False
        """Who wrote the recording is gone: what comes next is the last part."""
        self._heard = time.monotonic()
        self._failed: str | None = None
        self._known: frozenset[object] | None = None

    def stop(self) -> None:
        """Let `run` return soon; from any thread."""
        self._stop.set()

    def run(self) -> None:
        """Follow the recording to its end, and post what it shows."""
        try:
            for part, more in self._parts():
                if self._stop.is_set():
                    return
                self._take(part, more=more)
        except InputUnreadable as error:
            self._show(replace(self._last, state=State.TRUNCATED, why=error.message))
        except Exception as error:  # what was shown stays, and says that it goes no further
            log.debug("the follower stumbled", exc_info=error)
            self._show(replace(self._last, state=State.TRUNCATED, why=f"not read further: {type(error).__name__}"))

    def _parts(self) -> Iterator[tuple[Recording, bool]]:
        """Yield what is new, and whether there is more at once."""
        if self._grows:
            for part in reader.follow(self._path, wait=self._wait):
                yield part, False
            return
        held: Recording | None = None
        for part in reader.read_pieces(self._path, size=_PIECE_BYTES):
            if held is not None:
                yield held, True
            held = part
        if held is not None:
            yield held, False

    def _wait(self) -> bool:
        """Pause; say whether anybody may still write. What is quiet is said so meanwhile."""
        if self._stop.wait(TICK_S):
            return False
        if self._alive is not None:
            self._dead = not self._alive()
            return not self._dead
        if time.monotonic() - self._heard > _QUIET_S and self._last.state is State.LIVE:
            self._show(replace(self._last, state=State.QUIET, why=f"nothing was written for {_QUIET_S:.0f} s"))
        return True

    def _take(self, part: Recording, *, more: bool) -> None:
        """Take what is new; `more`: there is more at once, so nothing is shown yet."""
        began = time.thread_time()
        self._heard = time.monotonic()
        self.ledger.add(part)
        self.loads.add(part)
        if more:
            self._last = replace(self._last, **opening.about(part, self._last))
            self.window.add(part)
            return
        over = part.end is not None or part.truncated_at is not None or self._dead or not self._grows
        state, why = opening.state_of(part, over=over)
        base = replace(self._last, **opening.about(part, self._last), state=state, why=why or self._failed)
        if over and self.window.records + sum(map(len, chain(*part.runs.values()))) > _LIVE_RECORDS:
            self._show(self._snapshot(base, live=False))  # at once; the findings follow
        self.window.add(part)
        self.loads.make(over=over)
        if over or time.monotonic() - self._exam_at > (self._exam.seconds / _SHARE if self._exam else 0):
            self._examine()
        self._show(self._snapshot(base, live=not over))
        cost = time.thread_time() - began
        if not over:
            self._stop.wait(max(0.0, TICK_S / 2, min(cost / _SHARE, 2.0) - TICK_S))

    def _examine(self) -> None:
        if self._exam_records == self.window.records and not self.window.partial:
            return
        self._exam_records = self.window.records
        total = len(self.ledger.ends()) if self.window.partial else None
        try:
            exam = examine(self.window.recording(), total=total, slow_ms=self._slow_ms)
            self._exam = replace(exam, since_ms=self.window.since_ms)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # the figures are worth having without
            log.debug("not examined", exc_info=error)
            self._failed = f"not examined: {type(error).__name__}"
        self._exam_at = time.monotonic()

    def _snapshot(self, base: Snapshot, *, live: bool) -> Snapshot:
        exam = self._exam
        now = self.ledger.newest_ns
        quick = self.window.partial or exam is None
        if quick or exam is None:
            calls, ends = self.ledger.calls(), self.ledger.ends()
        else:
            calls, ends = exam.calls, exact.ends(exam.tables)
        rates, step = aggregate.rates(calls, ends, now, STEPS, live=live)
        keys = frozenset(map(key, exam.findings)) if exam else frozenset()
        fresh = keys - self._known if self._known is not None else frozenset()
        self._known = keys if exam else None
        return replace(
            base,
            length_s=now / 1e9,
            lost=self.ledger.lost,
            seen=sum(self.ledger.seen.values()),
            rows=aggregate.rows(calls, ends, self.ledger.programs, now, live=live),
            total=aggregate.figures(calls, ends, now, live=live),
            rates=rates,
            step_s=step,
            calls=calls,
            examination=exam,
            quick=quick,
            requests=self.ledger.requests if quick and self.ledger.has_calls else len(calls),
            programs=dict(self.ledger.programs),
            weights=self.loads.document,
            fresh=(fresh or base.fresh) & keys,
        )

    def _show(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        self._post(snapshot)
