# SPDX-License-Identifier: Apache-2.0
"""Data that reached a connection after its program had closed it, as TLS record headers show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netdiag.analysis.links import Link, changed, column, known

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["with_late"]

_APPLICATION_DATA = 23
_ALERT_13 = 19
"""Length of an encrypted alert of TLS 1.3, which looks like application data."""
_HEADER = 5


def with_late(links: Sequence[Link], records: pd.DataFrame) -> tuple[Link, ...]:
    """Return the connections with the bytes that came after their program's own close; unknown without records."""
    followed: set[int] = set()
    late: dict[int, float] = {}
    names = ("connection", "at_ns", "direction", "type", "length")
    for row, at, direction, kind, length in zip(*(column(records, name) for name in names), strict=True):
        link = links[int(row)]
        followed.add(link.row)
        data = direction == "receive" and kind == _APPLICATION_DATA and length != _ALERT_13
        if data and link.closed_by == "local" and known(link.closing_ns) and at > link.closing_ns:
            late[link.row] = late.get(link.row, 0.0) + length + _HEADER
    return tuple(changed(link, late_bytes=late.get(link.row, 0.0)) if link.row in followed else link for link in links)
