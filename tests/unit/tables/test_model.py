# SPDX-License-Identifier: Apache-2.0
"""Tables know whether something is missing."""

from __future__ import annotations

import pytest

from netdiag.tables import COLUMNS, Loss, Tables


def test_tables_of_nothing_have_all_columns():
    assert all(list(getattr(Tables(), name)) == list(columns) for name, columns in COLUMNS.items())


@pytest.mark.parametrize(("lost", "lossy"), [((), False), ((0,), False), ((None,), False), ((0, 3), True)])
def test_lossy_means_that_the_kernel_counted_lost_events(lost, lossy):
    assert Tables(losses=tuple(Loss(probe="tcp", seen=1, lost=each) for each in lost)).lossy is lossy
