# SPDX-License-Identifier: Apache-2.0
"""What `netdiag live` does: find the recording, or start a trace that writes one, and open the dashboard over it.

The trace is another process: it forks and waits for signals, which a program with threads and a terminal of its own
cannot do. It gets the words that the user gave; the dashboard only reads what it writes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netdiag import privilege
from netdiag.errors import InputUnreadable, Unsupported, UsageError
from netdiag.processes import Target

if TYPE_CHECKING:
    from netdiag.tui.app import Dashboard

__all__ = ["show", "trace_arguments"]

_MAGIC = b"NETDIAG\0"
_RECENT_S = 10.0
"""A recording without an end that was written to so recently may still grow."""
_STOP_S = 15.0
_MOST_DOCUMENT = 64 << 20
_WEIGHTS = ("duration_ms", "tier", "load", "files", "curve", "limit", "gpus", "restart", "findings", "summary")
_SHOWN = "live shows recordings, and the JSON of `netdiag weights` and `netdiag route-check`"
_OPTIONS = {
    "save_packets": "--save-packets",
    "probes": "--probe",
    "if_unavailable": "--if-unavailable",
    "as_root": "--as-root",
    "keep_argv": "--keep-argv",
}
"""What is handed on to `netdiag trace` as it is."""


def show(target: Target, argv: Sequence[str], chosen: Mapping[str, Any], *, is_command: bool) -> int:
    """Open the dashboard, and return the exit status when it was left; NetdiagError where there is nothing to show."""
    traces = is_command or target != Target()
    if not traces and len(argv) == 1:
        _check_terminal()
        return _kept(argv[0], chosen)
    if argv and not is_command:
        raise UsageError(
            "live takes one RECORDING, or a command after --",
            hint=f"netdiag live -- {' '.join(argv)}",
        )
    if chosen["duration"] is not None and not 0 < chosen["duration"] < 1e9:
        raise UsageError("--duration needs a number of seconds above 0")
    if sys.platform != "linux":
        raise Unsupported(f"tracing needs the Linux kernel, and this is {sys.platform}", hint="netdiag live RECORDING")
    _check_terminal()
    return _traced(target, argv, chosen)


def trace_arguments(target: Target, argv: Sequence[str], chosen: Mapping[str, Any], save: Path | None) -> list[str]:
    """Return the words after `netdiag trace` that say what was said to `netdiag live`."""
    words = ["--no-live-lines", "--slow-ms", f"{chosen['slow_ms']:g}"]
    if save is not None:
        words += ["--save", str(save)]
    for option, values in (
        ("--pid", target.pids), ("--exe", target.exe), ("--comm", target.comm), ("--cgroup", target.cgroups),
        ("--container", target.containers), ("--pod", target.pods), ("--port", target.ports), ("--host", target.hosts),
    ):  # fmt: skip
        for value in values:
            words += [option, str(value)]
    if not target.follow:
        words.append("--no-follow")
    if chosen["no_keep"]:
        words.append("--no-keep")
    if chosen["duration"] is not None:
        words += ["--duration", f"{chosen['duration']:g}"]
    for name in ("save_packets", "probes", "if_unavailable"):
        if chosen[name] is not None:
            words += [_OPTIONS[name], str(chosen[name])]
    words += [option for name, option in _OPTIONS.items() if chosen[name] is True]
    return [*words, "--", *argv] if argv else words


def _check_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("live needs a terminal", hint="netdiag analyze RECORDING prints the same findings anywhere")


def _kept(name: str, chosen: Mapping[str, Any]) -> int:
    from netdiag import state

    path = state.resolve(name)
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
        age = time.time() - path.stat().st_mtime
    except OSError as error:
        raise InputUnreadable(f"{path}: {error.strerror}") from error
    if start[:1] == b"{":
        _stored(path, chosen)
        return 0
    if start != _MAGIC[: len(start)] or not start:
        raise InputUnreadable(f"{path}: no recording of netdiag", hint=f"captures of packets: netdiag analyze {path}")
    _run(_app(path, chosen, grows=age < _RECENT_S))
    return 0


def _stored(path: Path, chosen: Mapping[str, Any]) -> None:
    """Show the document of a load of weights, or of a check of a route."""
    import json

    from netdiag.route import kept
    from netdiag.tui.model import Snapshot, State

    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_MOST_DOCUMENT))
    except (OSError, ValueError) as error:
        raise InputUnreadable(f"{path}: no document of netdiag") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema == "netdiag.weights/1" and all(name in document for name in _WEIGHTS):
        argv = (document.get("command") or {}).get("argv") or ["weights"]
        length = (document.get("duration_ms") or 0.0) / 1e3
        shown = Snapshot(state=State.FINISHED, what=" ".join(map(str, argv)), weights=document, length_s=length)
        _run(_app(None, chosen, snapshot=shown, first="weights"))
    elif kept.is_check(document):
        host = str(document["target"]["host"])
        shown = Snapshot(state=State.FINISHED, what=f"route-check {host}", started=str(document["started"]))
        _run(_app(None, chosen, snapshot=shown, first="routes", routes=lambda _: {host: document}))
    else:
        raise InputUnreadable(f"{path}: neither a load of weights nor a check of a route", hint=_SHOWN)


def _traced(target: Target, argv: Sequence[str], chosen: Mapping[str, Any]) -> int:
    user = privilege.calling_user()
    with _folder(user) as folder:
        named = chosen["save"] or (folder / "live.netdiag" if chosen["no_keep"] else None)
        words = trace_arguments(target, argv, chosen, named)
        out, said = (folder / name for name in ("out", "said"))
        before = set(_kept_now(user))
        if named is not None and named.exists():
            before.add((named, named.stat().st_mtime_ns))
        with out.open("wb") as stdout, said.open("wb") as stderr:
            child = subprocess.Popen(
                [sys.executable, "-m", "netdiag", "trace", *words],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
        privilege.drop(user)
        try:
            recording = _armed(child, named, before, user)
            if recording is not None:
                app = _app(recording, chosen, grows=True, alive=lambda: child.poll() is None)
                _run(app)
        finally:
            status = _stopped(child)
            _hand_on(out, sys.stdout)
            _hand_on(said, sys.stderr)
    return status


def _app(path: Path | None, chosen: Mapping[str, Any], **more: Any) -> Dashboard:
    from netdiag.route.kept import latest
    from netdiag.tui.app import Dashboard  # textual, pandas: 0.7 s

    more.setdefault("routes", latest)
    calm = chosen["calm"] or bool(os.environ.get("NETDIAG_REDUCED_MOTION"))
    return Dashboard(
        path, plain=chosen["plain"] or os.environ.get("TERM") == "dumb", calm=calm, slow_ms=chosen["slow_ms"], **more
    )


def _run(app: Dashboard) -> None:
    app.run(mouse=True)
    if app.fault is not None:
        raise app.fault


@contextlib.contextmanager
def _folder(user: privilege.User | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="netdiag-live-"))
    if user is not None:
        os.chown(folder, user.uid, user.gid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


Seen = set[tuple[Path, int]]
"""Recordings, and when each was last written to (ns)."""


def _kept_now(user: privilege.User | None) -> Seen:
    from netdiag import state

    found: Seen = set()
    for path in state.recordings(None if user is None else state.folder(uid=user.uid)):
        with contextlib.suppress(OSError):
            found.add((path, path.stat().st_mtime_ns))
    return found


def _armed(
    child: subprocess.Popen[bytes], named: Path | None, before: Seen, user: privilege.User | None
) -> Path | None:
    """Wait for the recording to begin, and return it; None where the trace ended without one.

    The password that sudo asks for comes first. A file without a name of ours is the new one among those that are kept.
    """
    known = {path for path, _ in before}
    while True:
        over = child.poll() is not None
        if named is not None:
            found = [named] if _begun(named) and (named, named.stat().st_mtime_ns) not in before else []
        else:
            held = _held(child)
            found = [path for path, _ in _kept_now(user) if path not in known] if held is None else held
            found = [path for path in found if _begun(path)]
        if found:
            return found[0]
        if over:
            return None
        time.sleep(0.05)


def _begun(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_size > len(_MAGIC)
    return False


def _held(child: subprocess.Popen[bytes]) -> list[Path] | None:
    """Return the recordings that the trace has open: others may trace as well. None where one may not look."""
    found = []
    try:
        for entry in Path(f"/proc/{child.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                path = entry.readlink()
                if path.suffix == ".netdiag":
                    found.append(path)
    except FileNotFoundError:
        return []
    except OSError:
        return None
    return found


def _stopped(child: subprocess.Popen[bytes]) -> int:
    if child.poll() is None:
        child.terminate()
    try:
        return child.wait(timeout=_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _hand_on(path: Path, stream: Any) -> None:
    """Write what a program printed meanwhile where it would have been printed."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        stream.flush()
        shutil.copyfileobj(file, stream.buffer)
        stream.flush()
