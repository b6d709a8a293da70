# SPDX-License-Identifier: Apache-2.0
"""A whole trace: start what has to be started, use privileges for one moment, wait, and stop in good order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from netdiag import privilege
from netdiag.errors import NetdiagError
from netdiag.privilege import User
from netdiag.processes import mask_argv, open_pid, resolve
from netdiag.processes.masking import MASK
from netdiag.recorder.link import MAX_LINE_BYTES
from netdiag.tracing import elevation
from netdiag.tracing.caller import command_environment, environment_before_sudo, search_path
from netdiag.tracing.command import Command, Located, locate
from netdiag.tracing.dissection import Dissection
from netdiag.tracing.files import RecordingFile
from netdiag.tracing.recorder import Interrupted, Recorder
from netdiag.tracing.request import ExitReason, IfUnavailable, Progress, Recording, TraceRequest, TraceResult
from netdiag.tracing.signals import Signals
from netdiag.tracing.watch import Attached, Watch

__all__ = ["trace"]

_LONGEST_WORD = 1024
"""Of a command line, characters; all its words together may take half of a message."""


def trace(
    request: TraceRequest,
    on_progress: Callable[[Progress], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> TraceResult:
    """Trace what `request` says, and return when the trace has ended.

    `on_progress` is called about five times a second, `on_notice` with lines for the user's eyes. `meanwhile` is
    called once, without privileges, while the recorder loads its programs: what is done then delays neither CMD nor
    the results. Call it from the main thread of a process with one thread: it forks, it catches Ctrl-C, and where the
    process has privileges it gives all of them up for good (`netdiag.privilege.drop`). Raises NetdiagError where
    nothing could be traced.
    """
    notify = on_notice or _ignore
    user = privilege.calling_user()
    with contextlib.ExitStack() as stack:
        pids = [open_pid(pid) for pid in request.target.pids]
        for fd in pids:
            stack.callback(os.close, fd)
        command = None
        if request.command:
            located = _command(request, user, notify)
            if isinstance(located, TraceResult):
                return located
            command = located
            stack.callback(command.close)
        signals = stack.enter_context(Signals(also=(signal.SIGQUIT,) if command else ()))
        try:
            attached = None
            if request.recording is not Recording.NONE:
                ready = _attached(request, user, command, signals, notify, meanwhile)
                attached = stack.enter_context(contextlib.closing(ready))
        except Interrupted:
            return TraceResult(
                recording=None, exit_reason=ExitReason.INTERRUPTED, command_status=None, duration_s=0.0, coverage=None
            )
        except NetdiagError as error:
            if request.recording is Recording.OPTIONAL:
                notify(f"without kernel programs: {error.message}")
            elif command is None or request.if_unavailable is IfUnavailable.FAIL:
                raise
            else:
                notify(f"not traced: {error.message}")
            attached = None
        finally:
            privilege.drop(user)  # whatever happened on the way
        if command is not None and request.on_command is not None:
            request.on_command(command.pid)
        return Watch(request, attached, command, signals, pids, on_progress or _ignore, notify).run()


def _attached(
    request: TraceRequest,
    user: User | None,
    command: Command | None,
    signals: Signals,
    notify: Callable[[str], None],
    meanwhile: Callable[[], None] | None,
) -> Attached:
    """Attach, hand over, drop: the one place where privileges are used.

    Under sudo nothing of the user's is looked at before the privileges are gone; otherwise the target and the file
    are checked first, so that nobody types a password for nothing.
    """
    how = elevation.plan(under_sudo=user is not None)
    if how.notice:
        notify(how.notice)
    prepared = None if user is not None else _prepared(request, command)
    recorder = dissection = None
    try:
        recorder = Recorder(how, signals)
        privilege.drop(user)
        prepared = prepared or _prepared(request, command)
        start, file = prepared
        if file.notice:
            notify(file.notice)
        dissection = _dissection(file.fd, notify)
        armed = _armed(recorder, start, file.fd, dissection, command, meanwhile)
    except BaseException:
        if prepared is not None:
            prepared[1].abandon()
        if recorder is not None:
            recorder.close()
        if dissection is not None:
            dissection.close()
        raise
    return Attached(recorder=recorder, file=file, coverage=armed.get("coverage"), dissection=dissection)


def _armed(
    recorder: Recorder,
    start: dict[str, Any],
    recording_fd: int,
    dissection: Dissection | None,
    command: Command | None,
    meanwhile: Callable[[], None] | None,
) -> dict[str, Any]:
    """Hand over what the recorder needs, and return what it says once the probes are armed."""
    with contextlib.ExitStack() as stack:
        more = {}
        if dissection is not None:
            more["plain"] = dissection.fileno()
            stack.callback(dissection.handed_over)
        if command is not None:
            with contextlib.suppress(OSError):  # a program may be executable and not readable
                more["program"] = os.open(command.path, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, more["program"])
        return recorder.arm(start, recording_fd, more, meanwhile=meanwhile)


def _dissection(recording_fd: int, notify: Callable[[str], None]) -> Dissection | None:
    """Start the process that takes plaintext apart; without it the trace goes on."""
    try:
        return Dissection(recording_fd)
    except OSError as error:
        notify(f"requests are not read in plaintext: {error.strerror}")
        return None


def _prepared(request: TraceRequest, command: Command | None) -> tuple[dict[str, Any], RecordingFile]:
    """Return the start message and the file of the recording."""
    target = resolve(request.target)
    said = None
    if command is not None:
        target["pids"].append(command.pid)
        said = {"pid": command.pid, "argv": _shown(request.command, keep=request.keep_argv)}
    start = {
        "do": "start",
        "target": target,
        "command": said,
        "probes": list(request.probes),
        "options": {**request.options, "keep_argv": request.keep_argv},
    }
    return start, RecordingFile.create(request)


def _shown(argv: Sequence[str], *, keep: bool) -> list[str]:
    """Return the command line as it is recorded: masked, printable, and short enough for a message."""
    words = [os.fsencode(word[:_LONGEST_WORD]).decode(errors="backslashreplace") for word in argv]
    shown: list[str] = []
    room = MAX_LINE_BYTES // 2
    for word in mask_argv(words, keep=keep):
        room -= len(json.dumps(word))
        if room < 0:
            return [*shown, MASK]
        shown.append(word)
    return shown


def _command(request: TraceRequest, user: User | None, notify: Callable[[str], None]) -> Command | TraceResult:
    """Fork CMD, which waits; or the result of a command that cannot be run."""
    before = environment_before_sudo() if user is not None else None
    owner = None if request.as_root else user
    environment = command_environment(owner, before)
    name = request.command[0]
    found = locate(name, search_path(environment))
    if found.path is None:
        notify(f"{name}: {'command not found' if found.status == 127 else 'permission denied'}")
        return TraceResult(
            recording=None,
            exit_reason=ExitReason.COMMAND_EXITED,
            command_status=found.status,
            duration_s=0.0,
            coverage=None,
        )
    if user is not None:
        _compare(name, found, user, before, notify, as_root=request.as_root)
    return Command(request.command, found.path, environment, user=owner)


def _compare(
    name: str,
    found: Located,
    user: User,
    before: dict[bytes, bytes] | None,
    notify: Callable[[str], None],
    *,
    as_root: bool,
) -> None:
    """Warn where CMD means one program to root and another to the user who called sudo."""
    roots = locate(name, os.environ.get("PATH", os.defpath)).path
    who = user.name or str(user.uid)
    if before is None:  # sudo gave a shell, say, or replaced itself
        if not as_root:
            what = name if name == found.path else f"{name} is {found.path} and"
            notify(f"{what} runs as {who}, who called sudo (--as-root keeps root)")
        return
    theirs = locate(name, search_path(before)).path
    if theirs != roots:
        runs, other, whose = (roots, theirs, who) if as_root else (theirs, roots, "root")
        notify(f"{name} runs {runs}; for {whose} it would be {other or 'not found'}")


def _ignore(_: object) -> None:
    """Stand for a listener that nobody gave."""
