# SPDX-License-Identifier: Apache-2.0
"""The recordings that are kept for later: `last` is the newest of them.

They lie in `$XDG_STATE_HOME/netdiag` or `~/.local/state/netdiag`, readable by their owner only; the newest few, and
together at most 64 MB. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from netdiag.errors import InputUnreadable

__all__ = [
    "LAST",
    "MAX_BYTES",
    "MAX_FILES",
    "data_folder",
    "effective_uid",
    "folder",
    "last",
    "new_path",
    "prune",
    "recordings",
    "resolve",
]

LAST = "last"
"""The word that stands for the newest kept recording."""

MAX_FILES = 20
MAX_BYTES = 64_000_000
_SUFFIX = ".netdiag"


def folder(environ: Mapping[str, str] = os.environ, uid: int | None = None) -> Path:
    """Return the folder of this user's recordings; it need not exist.

    Under sudo the environment may still be root's while the process is the user's again, or the other way round: then
    the home folder comes from the password database.
    """
    if "SUDO_UID" not in environ:
        state = environ.get("XDG_STATE_HOME", "")
        if os.path.isabs(state):  # noqa: PTH117 - a relative one is to be ignored, says its specification
            return Path(state) / "netdiag"
        if environ.get("HOME"):
            return Path(environ["HOME"]) / ".local/state/netdiag"
    return _home(effective_uid() if uid is None else uid) / ".local/state/netdiag"


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of what is kept longer (baselines, checks of routes); it need not exist."""
    data = environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(data):  # noqa: PTH117 - a relative one is to be ignored, says its specification
        return Path(data) / "netdiag"
    if "SUDO_UID" in environ:  # the environment may still be root's
        return _home(effective_uid()) / ".local/share/netdiag"
    return Path(environ.get("HOME") or "/nonexistent") / ".local/share/netdiag"


def effective_uid() -> int:
    """Return the user that this process acts as; -1 on systems that number no users."""
    return os.geteuid() if hasattr(os, "geteuid") else -1


def _home(uid: int) -> Path:
    if uid < 0:
        return Path.home()
    import pwd  # not on Windows, where recordings are read as well

    try:
        return Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:  # a container runs as a number that has no name
        return Path("/nonexistent")


def new_path(where: Path | None = None) -> Path:
    """Make the folder (0700) and return a name in it that no file has; OSError where that is impossible.

    Names sort by time: `20261201T101500Z-3f9a.netdiag`.
    """
    where = folder() if where is None else where
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return where / f"{stamp}-{secrets.token_hex(4)}{_SUFFIX}"


def recordings(where: Path | None = None) -> list[Path]:
    """Return the kept recordings, newest first; none where the folder cannot be read."""
    where = folder() if where is None else where
    found: list[tuple[int, str, Path]] = []
    with contextlib.suppress(OSError), os.scandir(where) as entries:
        found.extend(
            (entry.stat(follow_symlinks=False).st_mtime_ns, entry.name, Path(entry.path))
            for entry in entries
            if entry.name.endswith(_SUFFIX) and entry.is_file(follow_symlinks=False)
        )
    return [path for _, _, path in sorted(found, reverse=True)]


def prune(where: Path | None = None, *, files: int = MAX_FILES, size: int = MAX_BYTES) -> list[Path]:
    """Delete the oldest recordings beyond `files` and `size` bytes, return them; the newest always stays."""
    total, deleted = 0, []
    for place, path in enumerate(recordings(where)):
        with contextlib.suppress(FileNotFoundError):  # another trace that ends at the same time prunes, too
            total += path.stat().st_size
            if place and (place >= files or total > size):
                path.unlink()
                deleted.append(path)
    return deleted


def last(where: Path | None = None) -> Path:
    """Return the newest kept recording; InputUnreadable where there is none."""
    kept = recordings(where)
    if kept:
        return kept[0]
    place = folder() if where is None else where
    raise InputUnreadable(f"there is no last recording in {place}", hint="trace something first, without --no-keep")


def resolve(name: str) -> Path:
    """Return the path that the user means by `name`: a file, or `last`."""
    if name != LAST:
        return Path(name)
    caller = os.environ.get("SUDO_UID", "")
    if effective_uid() == 0 and caller.isdecimal() and not recordings():
        return last(folder(uid=int(caller)))  # sudo netdiag report last: the trace was kept for who called sudo
    return last()
