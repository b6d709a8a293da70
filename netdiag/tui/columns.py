# SPDX-License-Identifier: Apache-2.0
"""Requests and connections as columns, from which everything on the overview is computed.

They come from the tables (exact), or from raw records alone (`ledger`) where a recording is too large for that.
Instants are nanoseconds since the start of the recording, durations milliseconds, NaN = not known.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["PARTS", "Calls", "Ends", "Floats", "Ints", "Texts"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Texts = NDArray[np.object_]

PARTS = ("dns", "connect", "client_setup", "tls", "queue", "send", "wait", "receive", "reader_lag", "unattributed")
"""Parts of a request's time, in the order in which they pass; `wait` is the server's."""


class _Columns:
    """Columns of equal length."""

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """Return all rows after each other."""
        names = [one.name for one in fields(cls)]  # type: ignore[arg-type]
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def take(self, index: Any) -> Self:
        """Return the rows that a mask, a slice or positions name."""
        cls = type(self)
        return cls(**{one.name: getattr(self, one.name)[index] for one in fields(cls)})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calls(_Columns):
    """Requests, in order of their beginning."""

    row: Ints
    """In the table of requests; -1 where there is none."""
    connection: Ints
    """Row in the table of connections; -1 = not known."""
    pid: Ints
    """-1 = not known."""
    host: Texts
    """Name or address with port; None = not known."""
    label: Texts
    """Method and path; None = not known."""
    began_ns: Floats
    ended_ns: Floats
    total_ms: Floats
    wait_ms: Floats
    first_token_ms: Floats
    status: Floats
    failed: Floats
    """1, 0, or NaN where nothing shows how it ended."""
    retried: Floats
    """1 for a second or later attempt, 0, or NaN."""
    reused: Floats
    stream: NDArray[np.bool_]
    parts: NDArray[np.float64]
    """One column for each of `PARTS`."""

    def __len__(self) -> int:
        return len(self.pid)

    @classmethod
    def none(cls) -> Self:
        """Return no rows."""
        return cls(**_empty(cls, {"row", "connection", "pid"}, {"host", "label"}))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ends(_Columns):
    """Connections, in order of time; one that both ends were traced of has two rows."""

    row: Ints
    pid: Ints
    host: Texts
    opened_ns: Floats
    ended_ns: Floats
    established: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    resumed: Floats
    """Of its completed handshake: 1, 0; NaN = none, or not known."""
    retransmits: Floats

    def __len__(self) -> int:
        return len(self.pid)

    @classmethod
    def none(cls) -> Self:
        """Return no rows."""
        return cls(**_empty(cls, {"row", "pid"}, {"host"}))


def _empty(cls: type, ints: set[str], texts: set[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for one in fields(cls):
        if one.name in ints:
            made[one.name] = np.zeros(0, np.int64)
        elif one.name in texts:
            made[one.name] = np.zeros(0, object)
        elif one.name in {"stream", "established", "failed"} and not (cls is Calls and one.name == "failed"):
            made[one.name] = np.zeros(0, bool)
        elif one.name == "parts":
            made[one.name] = np.zeros((0, len(PARTS)))
        else:
            made[one.name] = np.zeros(0)
    return made
