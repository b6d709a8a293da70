# SPDX-License-Identifier: Apache-2.0
"""The environment that CMD gets: the caller's own, byte for byte, also where sudo took it away from us."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from netdiag.privilege import User

__all__ = ["command_environment", "environment_before_sudo", "own_environment", "search_path"]

Environment = dict[bytes, bytes]

PROC = Path("/proc")
_COERCED = {b"C.UTF-8", b"C.utf8", b"UTF-8"}
_OF_SUDO = (b"SUDO_COMMAND", b"SUDO_USER", b"SUDO_UID", b"SUDO_GID", b"SUDO_HOME", b"SUDO_TTY")


def own_environment() -> Environment:
    """Return this process's environment as its caller gave it, in its order, with later changes.

    Python itself adds LC_CTYPE under the C locale (PEP 538); CMD must not inherit that.
    """
    given = _environment_of(os.getpid()) or {}
    now = dict(os.environb)
    if b"LC_CTYPE" not in given and now.get(b"LC_CTYPE") in _COERCED and given:
        del now[b"LC_CTYPE"]
    return {name: now[name] for name in (*(name for name in given if name in now), *now)}


def environment_before_sudo() -> Environment | None:
    """Return the environment in which sudo itself was called, or None where that cannot be seen.

    sudo stays our parent on most systems (with a pty of its own it is our grandparent, too). Its environment is the
    caller's: their PATH, virtual environment and keys. Only root can read it; it is given to nobody but CMD, which runs
    as that caller.
    """
    found = None
    pid = os.getppid()
    for _ in range(4):
        if _program(pid) not in ("sudo", "sudo-rs"):
            break
        found = _environment_of(pid) or found
        pid = _parent(pid)
    return found


def command_environment(user: User | None, before: Environment | None = None) -> Environment:
    """Return CMD's environment: our own, or under sudo that of `user`.

    `before` is what `environment_before_sudo` found: its variables win, those that were set on sudo's command line or
    kept by its policy come on top. Without it, the names and home of `user` replace root's.
    """
    environment = own_environment()
    if user is None:
        return environment
    for name in _OF_SUDO:
        environment.pop(name, None)
    if before is not None:
        return {**before, **{name: value for name, value in environment.items() if name not in before}}
    name = os.fsencode(user.name or str(user.uid))
    environment.pop(b"MAIL", None)
    return {**environment, **_identity(user, name)}


def _identity(user: User, name: bytes) -> Environment:
    return {b"HOME": os.fsencode(user.home), b"SHELL": os.fsencode(user.shell), b"USER": name, b"LOGNAME": name}


def search_path(environment: Mapping[bytes, bytes]) -> str:
    """Return the PATH of an environment, the system's default where it has none."""
    return os.fsdecode(environment.get(b"PATH", os.fsencode(os.defpath)))


def _environment_of(pid: int) -> Environment | None:
    """Return the environment with which `pid` was started, in order, or None where it cannot be read."""
    try:
        text = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    pairs = (entry.partition(b"=") for entry in text.split(b"\0"))
    return {name: value for name, equals, value in pairs if name and equals}


def _program(pid: int) -> str | None:
    """Return the name of the program that `pid` runs, if it is root's file: others could pretend to be sudo."""
    path = PROC / str(pid) / "exe"
    try:
        return path.readlink().name if _owner(path) == 0 else None
    except OSError:
        return None


def _owner(path: Path) -> int:
    return path.stat().st_uid


def _parent(pid: int) -> int:
    """Return the parent of `pid`, 0 where there is none to be seen."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])
