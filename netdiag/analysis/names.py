# SPDX-License-Identifier: Apache-2.0
"""What a connection cost before its first SYN: the look-up of the server's name belongs to its set-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from netdiag.analysis.links import Link, column, known, number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["with_names"]


def with_names(links: Sequence[Link], requests: pd.DataFrame) -> tuple[Link, ...]:
    """Return the connections with the look-ups that their first requests waited for in their set-up times."""
    waited: dict[int, float] = {}
    for row, took in zip(column(requests, "connection"), column(requests, "dns_ms"), strict=True):
        if number(took) > 0:
            waited.setdefault(int(row), number(took))
    return tuple(
        replace(link, setup_ms=link.setup_ms + waited[link.row])
        if link.row in waited and known(link.setup_ms)
        else link
        for link in links
    )
