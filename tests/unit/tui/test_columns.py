# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from netdiag.tui import exact
from netdiag.tui.columns import PARTS, Calls, Ends
from tests.fakes import dashboards


@pytest.mark.parametrize("kind", [Calls, Ends])
def test_nothing_has_the_types_of_something(kind):
    none = kind.none()
    assert len(none) == 0
    some = exact.calls(dashboards.tables()) if kind is Calls else exact.ends(dashboards.tables())
    joined = kind.joined([none, some])
    assert len(joined) == 3
    for name in kind.__slots__:
        assert getattr(joined, name).dtype == getattr(some, name).dtype, name


def test_rows_are_taken_from_all_columns():
    calls = exact.calls(dashboards.tables())
    one = calls.take(np.array([False, True, False]))
    assert len(one) == 1
    assert one.status.tolist() == [500.0]
    assert one.parts.shape == (1, len(PARTS))
