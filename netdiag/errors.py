# SPDX-License-Identifier: Apache-2.0
"""The few errors that reach a user: what went wrong, what to do, and the exit status."""

from __future__ import annotations

__all__ = ["InputUnreadable", "NetdiagError", "NotPermitted", "Unsupported", "UsageError"]


class NetdiagError(Exception):
    """A failure told in one sentence, with a remedy where there is one."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(NetdiagError):
    """The words of the call are wrong."""

    exit_code = 2


class NotPermitted(NetdiagError):  # noqa: N818 - reads as the sentence it starts
    """A right is missing; the message names the capability."""

    exit_code = 4


class Unsupported(NetdiagError):  # noqa: N818
    """This machine cannot do it; the message says what is missing."""

    exit_code = 5


class InputUnreadable(NetdiagError):  # noqa: N818
    """A file cannot be read; the message says where, by byte offset or record."""

    exit_code = 6
