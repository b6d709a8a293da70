# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from netdiag.bulk import figures, pack
from netdiag.document import build
from netdiag.tables.model import Tables
from tests.fakes import calls, dashboards


def _packed(tables: Tables) -> Tables:
    rows: dict[str, Any] = {
        name: pack.joined([pack.pack(name, getattr(tables, name))], np.arange(len(getattr(tables, name))))
        for name in pack.PACKED
    }
    return replace(tables, **rows)


def _near(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert set(one) == set(other)
        for key in one:
            _near(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for first, second in zip(one, other, strict=True):
            _near(first, second)
    else:
        assert one == (pytest.approx(other, abs=2e-6) if isinstance(other, float) else other)


@pytest.mark.parametrize("tables", [calls.source().tables, dashboards.tables()])
def test_the_summary_is_that_of_the_document(tables):
    recording = calls.source().recording
    _near(figures.summary(_packed(tables)), build(recording, tables, ())["summary"])


def test_known_values():
    told = figures.known(_packed(dashboards.tables()).requests, "first_token_ms")
    assert told == [50.0]
