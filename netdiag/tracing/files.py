# SPDX-License-Identifier: Apache-2.0
"""The recording's file: made by the user, readable by nobody else, kept as `last`, never in place of another file."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Self

from netdiag import state
from netdiag.errors import UsageError
from netdiag.tracing.request import TraceRequest

__all__ = ["RecordingFile"]

_MAGIC = b"NETDIAG\0"
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class RecordingFile:
    """An open, empty recording; its descriptor goes to the recorder."""

    def __init__(self, path: Path, fd: int, *, temporary: bool = False, kept: Path | None = None) -> None:
        self.path = path
        self.fd = fd
        self.temporary = temporary
        self.notice: str | None = None
        """What the user should know about where it lies, in one line."""
        self._kept = kept
        """The second name, or the later copy, in the state folder."""

    @classmethod
    def create(cls, request: TraceRequest) -> Self:
        """Make the file that `request` asks for. Raises UsageError where that is impossible."""
        try:
            if request.save is not None:
                return cls._saved(request.save, keep=request.keep)
            if not request.keep:
                return cls._temporary()
            return cls._kept_or_temporary()
        except OSError as error:
            where = error.filename or request.save or tempfile.gettempdir()
            hint = None if request.save else "--save FILE puts it elsewhere"
            raise UsageError(f"the recording {where} cannot be written: {error.strerror}", hint=hint) from error

    @classmethod
    def _kept_or_temporary(cls) -> Self:
        """Open a file in the state folder; where there can be none, a temporary one: a home is not needed to trace."""
        try:
            path = state.new_path()
            return cls(path, os.open(path, _FLAGS | os.O_EXCL, 0o600))
        except OSError as error:
            file = cls._temporary()
            file.notice = f"no recording is kept as `last`: {error.filename}: {error.strerror} (--save FILE keeps one)"
            return file

    @classmethod
    def _temporary(cls) -> Self:
        fd, name = tempfile.mkstemp(prefix="netdiag-", suffix=".netdiag")
        return cls(Path(name), fd, temporary=True)

    @classmethod
    def _saved(cls, path: Path, *, keep: bool) -> Self:
        """Open the file that the user named: a new one, or an older recording to be replaced."""
        fd = os.open(path, _FLAGS | os.O_NONBLOCK, 0o600)
        try:
            _check_replaceable(path, fd)
            if os.fstat(fd).st_nlink > 1:  # an older one that is kept under its second name: that stays what it is
                os.close(fd)
                path.resolve().unlink()
                fd = os.open(path, _FLAGS | os.O_EXCL, 0o600)
            os.ftruncate(fd, 0)
            os.fchmod(fd, 0o600)
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(fd)
            raise
        return cls(path, fd, kept=_second_name(path) if keep else None)

    @property
    def size(self) -> int:
        """Return how many bytes were recorded."""
        return os.fstat(self.fd).st_size

    @property
    def readable(self) -> Path:
        """Return under which name this process can read it.

        Root without capabilities cannot enter other users' closed folders: there the open descriptor is the way, and it
        stays open.
        """
        return self.path if os.access(self.path, os.R_OK) else Path(f"/proc/self/fd/{self.fd}")

    def finish(self) -> None:
        """Close the file, see that it is kept as `last`, and delete what is too old."""
        if self.readable is self.path:
            os.close(self.fd)
        if self._kept is not None and not self._kept.exists():
            with contextlib.suppress(OSError):  # a full disk must not cost the results
                if self.readable.stat().st_size <= state.MAX_BYTES:
                    _copy(self.readable, self._kept)
        if not self.temporary:
            state.prune()

    def abandon(self) -> None:
        """Close and remove the file: nothing was recorded."""
        os.close(self.fd)
        for path in (self.path, self._kept):
            if path is not None:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)


def _check_replaceable(path: Path, fd: int) -> None:
    """Raise UsageError for anything but an empty file or a recording: a mistyped name must not cost a file."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is not a regular file: a recording cannot be saved there")
    if found.st_size == 0:
        return
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise UsageError(f"{path} exists and is not a recording; it was left as it is")


def _second_name(path: Path) -> Path | None:
    """Return the name under which the saved recording is also kept: a link now, or where a copy goes at the end."""
    try:
        kept = state.new_path()
    except OSError:
        return None
    with contextlib.suppress(OSError):  # another file system
        os.link(path, kept)
    return kept


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as read, os.fdopen(os.open(target, _FLAGS | os.O_EXCL, 0o600), "wb") as write:
        shutil.copyfileobj(read, write)
