# SPDX-License-Identifier: Apache-2.0
"""Files without a name that hold what is made of a large input while it is read, and what is said where none fits."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator
from typing import IO

from netdiag.errors import Unsupported

__all__ = ["guarded", "scratch"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ASIDE = "name a folder with room: TMPDIR=/path netdiag …"


def scratch() -> IO[bytes]:
    """Return a new file without a name, gone with the process; Unsupported where none can be made."""
    with guarded():
        return tempfile.TemporaryFile(prefix="netdiag-")


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Turn an OSError of writing to such a file into Unsupported, with what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise Unsupported(
                f"{_folder()} has no room for what is made of the capture while it is read: {error.strerror}",
                hint=f"free some there, or {_ASIDE}",
            ) from error
        raise Unsupported(
            f"what is made of the capture while it is read cannot be kept in {_folder()}: {error.strerror}",
            hint=_ASIDE,
        ) from error


def _folder() -> str:
    """Return where such files lie, as far as there is such a place."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return "any folder for temporary files"
