# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.analysis.case import Options, prepare


def late(stage):
    return prepare(stage.tables(), Options()).links[0].late_bytes


@pytest.mark.parametrize(
    ("after", "kind", "length", "direction", "side", "expected"),
    [
        (0.1, 23, 22, "receive", "local", 27),
        (0.1, 23, 19, "receive", "local", 0),
        (0.1, 21, 26, "receive", "local", 0),
        (0.1, 23, 22, "send", "local", 0),
        (-0.1, 23, 22, "receive", "local", 0),
        (0.1, 23, 22, "receive", "remote", 0),
        (0.1, 23, 22, "receive", None, 0),
    ],
)
def test_application_data_after_the_programs_own_close(stage, after, kind, length, direction, side, expected):
    row = stage.connection(0, closed_by=side)
    end = stage.connections[row]["closing_ns"] if side else 1e6
    at = end + after * 1e6
    stage.records.append({"connection": row, "at_ns": at, "direction": direction, "type": kind, "length": length})
    assert late(stage) == expected
    later = prepare(stage.tables(), Options()).links[0].late_ms
    assert later == pytest.approx(after) if expected else math.isnan(later)


def test_nothing_is_known_where_records_were_not_followed(stage):
    stage.connection(0, closed_by="local")
    assert math.isnan(late(stage))
