# SPDX-License-Identifier: Apache-2.0
"""What a trace is asked for, how it goes on, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from netdiag.processes import Target

__all__ = ["ExitReason", "IfUnavailable", "Progress", "Recording", "TraceRequest", "TraceResult"]


class ExitReason(StrEnum):
    """Who or what ended the trace."""

    COMMAND_EXITED = "command-exited"
    DURATION = "duration"
    INTERRUPTED = "interrupted"
    TARGETS_EXITED = "targets-exited"
    RECORDER_DIED = "recorder-died"
    READY = "ready"


class Recording(StrEnum):
    """Whether kernel programs record."""

    REQUIRED = "required"
    """Without them `if_unavailable` decides."""
    OPTIONAL = "optional"
    """Where none can load the trace goes on without, and ends as it would with them."""
    NONE = "none"
    """None is loaded, and nobody is asked for privileges."""


class IfUnavailable(StrEnum):
    """What happens to CMD where no probe can load."""

    RUN = "run"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """One trace, as the user asked for it."""

    target: Target = field(default_factory=Target)
    """With a command: whom to trace beside it and its children. Nothing named = the command alone, or all."""
    command: tuple[str, ...] = ()
    duration_s: float | None = None
    """The longest that the trace lasts; a command that still runs then runs on, untraced."""
    save: Path | None = None
    """Where the recording goes; None = the user's state folder, as `last`."""
    keep: bool = True
    """False: the recording is a temporary file, which `TraceResult.discard` removes."""
    probes: tuple[str, ...] = ()
    """Names of probes; nothing named = the recorder's default set."""
    if_unavailable: IfUnavailable = IfUnavailable.FAIL
    recording: Recording = Recording.REQUIRED
    on_command: Callable[[int], None] | None = None
    """Called once with the pid of the command, right before it starts."""
    until_fd: int | None = None
    """A descriptor: once it can be read the trace ends (`ExitReason.READY`), and the command runs on."""
    as_root: bool = False
    """Under sudo: the command stays root."""
    keep_argv: bool = False
    """Command lines are recorded as they are, values included."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of the recorder, JSON values only; they go into its start message as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a running trace is; given about five times a second, and at once when `state` changes."""

    state: str
    """`armed` (once, before the command starts), `tracing`, `stopping` (once)."""
    elapsed_s: float
    """Since armed."""
    recording: Path
    """Grows while the trace runs; a reader may follow it."""
    recorded_bytes: int
    command_pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceResult:
    """What a trace leaves."""

    recording: Path | None
    """None where nothing was recorded."""
    exit_reason: ExitReason
    command_status: int | None
    """As a shell would say it: 128 + n when killed by signal n, 127 not found, 126 not executable, None = no
    command, or it still runs."""
    duration_s: float
    """From armed to the end."""
    coverage: Mapping[str, Any] | None
    """What the recorder said when it was armed."""
    temporary: bool = False
    """Whether the recording is to be discarded once it was read."""

    def discard(self) -> None:
        """Remove the recording if it is a temporary one."""
        if self.temporary and self.recording is not None:
            self.recording.unlink(missing_ok=True)
