# SPDX-License-Identifier: Apache-2.0
"""Definitions exist for every figure of a request's time and of a stream, whole and in plain words."""

from __future__ import annotations

import pytest

from netdiag.errors import InputUnreadable
from netdiag.metrics import UNITS, metrics
from netdiag.summary import PARTS
from netdiag.tables.chunks import nothing


def test_every_part_of_the_time_is_defined():
    assert {member for _, member in PARTS} | {"total_ms"} <= set(metrics())


def test_every_figure_of_a_stream_is_defined():
    told = set(nothing()) - {"kind", "stalls"}
    assert told <= set(metrics())


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_a_definition_is_whole(metric):
    assert metric.unit in UNITS
    assert metric.name.endswith("_ms") == (metric.unit == "ms")
    for text in (metric.means, metric.where, metric.unknown, *(how for _, how in metric.differs)):
        assert text.endswith(".")


def test_a_damaged_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "metrics.toml").write_text("schema = 2\n[metrics]\n")
    monkeypatch.setattr("netdiag.metrics.data_dir", lambda _: tmp_path)
    metrics.cache_clear()
    with pytest.raises(InputUnreadable, match="schema"):
        metrics()
    metrics.cache_clear()
