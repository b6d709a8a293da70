# SPDX-License-Identifier: Apache-2.0
"""The time between armed and ended: what may end a trace, and in which order everything is put away."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netdiag.tracing.command import Command
from netdiag.tracing.dissection import Dissection
from netdiag.tracing.files import RecordingFile
from netdiag.tracing.recorder import Recorder
from netdiag.tracing.request import ExitReason, Progress, Recording, TraceRequest, TraceResult
from netdiag.tracing.signals import Signals

__all__ = ["Attached", "Watch"]

TICK_S = 0.2
"""How often progress is told."""
STOP_S = 10.0
"""How long the recorder may take to drain and write the end when nobody waits at the terminal."""
STOP_AT_ONCE_S = 0.4
"""The same after Ctrl-C: the results must be there within a second, and they need the rest of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A recorder that is armed, with the file it writes to."""

    recorder: Recorder
    file: RecordingFile
    coverage: Mapping[str, Any] | None
    dissection: Dissection | None = None
    """The process that takes plaintext apart; None where there is none."""

    def close(self) -> None:
        """Hang up; the kernel detaches everything."""
        self.recorder.close()
        if self.dissection is not None:
            self.dissection.close()


class Watch:
    """Waits for the end of a trace; without a recorder (`attached` None) only for CMD's."""

    def __init__(
        self,
        request: TraceRequest,
        attached: Attached | None,
        command: Command | None,
        signals: Signals,
        pids: Sequence[int],
        on_progress: Callable[[Progress], None],
        notify: Callable[[str], None],
    ) -> None:
        self._request = request
        self._attached = attached
        self._recorder = attached.recorder if attached else None
        self._command = command
        self._signals = signals
        self._pids = [] if command else list(pids)
        self._waits_for_pids = bool(self._pids)
        self._on_progress = on_progress
        self._notify = notify
        self._interrupts = 0
        self._began = time.monotonic()

    def run(self) -> TraceResult:
        """Let CMD go, wait for an end, stop the recorder and return what there is."""
        self._tell("armed")
        if self._command is not None and (reason := self._command.release()) is not None:
            self._notify(f"{self._request.command[0]}: {reason}")
        ended = None
        while ended is None:
            ended = self._step()
        duration_s = time.monotonic() - self._began
        self._tell("stopping")
        status = self._command.status() if self._command else None
        reason = self._stopped(ended, status)
        return TraceResult(
            recording=self._attached.file.readable if self._attached else None,
            exit_reason=reason,
            command_status=status,
            duration_s=duration_s,
            coverage=self._attached.coverage if self._attached else None,
            temporary=self._attached.file.temporary if self._attached else False,
        )

    def _step(self) -> ExitReason | None:
        """Wait for one event or a tick; return why the trace is over, or None."""
        waited = [one for one in (self._recorder, self._command) if one is not None]
        until = [] if self._request.until_fd is None else [self._request.until_fd]
        ready, caught = self._signals.wait([*waited, *self._pids, *until], self._patience())
        if self._recorder is not None and self._recorder in ready and not self._listen():
            self._recorder = None
            self._notify("the recorder died: what it had recorded is kept")
        if self._command is not None and self._command in ready and self._command.status() is not None:
            return ExitReason.COMMAND_EXITED
        self._pids = [fd for fd in self._pids if fd not in ready]
        if any(map(self._is_end, caught)):
            return ExitReason.INTERRUPTED
        if self._request.until_fd in ready:
            return ExitReason.READY
        return self._over()

    def _over(self) -> ExitReason | None:
        """Return why the trace is over though no signal and no end of CMD came, or None."""
        alone = self._attached is None and self._request.recording is not Recording.REQUIRED
        if self._recorder is None and self._command is None and not alone:
            return ExitReason.RECORDER_DIED
        if self._waits_for_pids and not self._pids:
            return ExitReason.TARGETS_EXITED
        limit = self._request.duration_s
        if limit is not None and time.monotonic() - self._began >= limit and (self._recorder is not None or alone):
            return ExitReason.DURATION
        self._tell("tracing")
        return None

    def _patience(self) -> float:
        """Return for how long to wait: until the next tick, or the end of the given duration."""
        if self._request.duration_s is None:
            return TICK_S
        return min(TICK_S, max(self._began + self._request.duration_s - time.monotonic(), 0.001))

    def _is_end(self, caught: int) -> bool:
        """Say whether a signal ends the trace: with CMD the first Ctrl-C, and Ctrl-backslash, are CMD's."""
        if caught == signal.SIGINT:
            self._interrupts += 1
            return self._command is None or self._interrupts > 1
        return caught in (signal.SIGTERM, signal.SIGHUP)

    def _listen(self) -> bool:
        """Hear the recorder out; return whether it is still there."""
        if self._recorder is None:
            return False
        try:
            while (message := self._recorder.heard()) is not None:
                if message.get("say") == "error":
                    self._notify(str(message.get("message")))
        except EOFError:
            return False
        return True

    def _stopped(self, ended: ExitReason, status: int | None) -> ExitReason:
        """Stop the recorder and close the recording; return who ended the trace after all."""
        if self._attached is None:
            return ended
        stopped = False
        if self._recorder is not None:
            at_once = ended is ExitReason.INTERRUPTED
            dissection = self._attached.dissection
            stopped = self._recorder.stop(
                ended.value,
                status,
                timeout_s=STOP_AT_ONCE_S if at_once else STOP_S,
                others=dissection.wait if dissection is not None else None,
            )
            if not stopped:
                self._notify("the recorder did not end in good order: the last moments may be missing")
        self._attached.file.finish()
        return ended if stopped or self._recorder is not None else ExitReason.RECORDER_DIED

    def _tell(self, state: str) -> None:
        if self._attached is None:
            return
        self._on_progress(
            Progress(
                state=state,
                elapsed_s=time.monotonic() - self._began,
                recording=self._attached.file.readable,
                recorded_bytes=self._attached.file.size,
                command_pid=self._command.pid if self._command else None,
            )
        )
