# SPDX-License-Identifier: Apache-2.0
"""Data that reached a connection after its program had closed it, as TLS record headers show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from netdiag.analysis.http_rows import blocks
from netdiag.analysis.links import Link, changed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["with_late"]

_APPLICATION_DATA = 23
_ALERT_13 = 19
"""Length of an encrypted alert of TLS 1.3, which looks like application data."""
_HEADER = 5


def with_late(links: Sequence[Link], records: pd.DataFrame) -> tuple[Link, ...]:
    """Return the connections with the bytes that came after their program's own close; unknown without records."""
    if not len(records):
        return tuple(links)
    closed = np.array([link.closing_ns if link.closed_by == "local" else np.nan for link in links])
    found: dict[int, float] = {}
    last = np.full(len(links), np.nan)
    for part in blocks(records, "connection"):
        row, at, length = (part[name].to_numpy() for name in ("connection", "at_ns", "length"))
        late = at > closed[row]
        late &= (part["type"] == _APPLICATION_DATA).to_numpy() & (length != _ALERT_13)
        late[late] = (part["direction"][late] == "receive").to_numpy()
        found |= dict.fromkeys(np.unique(row).tolist(), 0.0)
        for one, size, when in zip(row[late].tolist(), length[late].tolist(), at[late].tolist(), strict=True):
            found[one] += size + _HEADER
            last[one] = np.fmax(last[one], (when - closed[one]) / 1e6)
    return tuple(
        changed(link, late_bytes=found[link.row], late_ms=float(last[link.row])) if link.row in found else link
        for link in links
    )
