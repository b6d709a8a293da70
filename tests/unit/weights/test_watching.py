# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from typing import Any

import pytest

from netdiag.weights.watching import Watcher, period_s


@pytest.mark.parametrize(
    ("elapsed", "cost", "period"),
    [(0.0, 0.0, 0.01), (5.0, 0.0, 0.05), (100.0, 0.0, 0.1), (1.0, 0.0005, 0.05), (1.0, 0.005, 0.5), (1.0, 9.0, 1.0)],
)
def test_looks_get_rarer_the_longer_it_lasts_and_the_more_they_cost(elapsed: float, cost: float, period: float) -> None:
    assert period_s(elapsed, cost) == pytest.approx(period)


def test_a_watched_process_becomes_rows() -> None:
    rows: list[dict[str, Any]] = []
    watcher = Watcher(rows.append)
    watcher.watch(os.getpid())
    watcher.watch(2**22)  # nobody
    watcher.look()
    watcher.look()
    watcher.finish()
    kinds = {row["kind"] for row in rows}
    assert {"point", "thread", "cost"} <= kinds
    mine = [row for row in rows if row["kind"] == "thread" and row["tid"] == os.getpid()]
    assert len(mine) == 1
    assert rows[-1]["looks"] == 2
