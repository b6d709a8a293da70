# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.render import waterfall
from tests.fakes import calls, documents


def test_parts_follow_each_other_to_the_end():
    drawn = waterfall.draw(calls.source().document())
    assert drawn is not None
    assert len(drawn.rows) == 7
    for row in drawn.rows:
        for one, two in zip(row.parts, row.parts[1:], strict=False):
            assert two.x >= one.x
    streamed = drawn.rows[5]
    assert [part.kind for part in streamed.parts] == ["connect", "client-setup", "send", "server", "receive"]
    wait = streamed.parts[3]
    whole = drawn.rows[-1].parts[0].x - drawn.rows[0].parts[0].x
    assert wait.width / whole == pytest.approx(210.123456 / 1200, rel=0.01)


def test_failed_requests_are_marked():
    drawn = waterfall.draw(calls.source().document())
    assert drawn is not None
    assert [row.failed for row in drawn.rows] == [False] * 6 + [True]
    assert "status 503" in drawn.rows[-1].title


def test_the_slowest_and_those_that_findings_name_are_kept():
    many = [documents.request(number, 0, number, total_ms=1.0 + number % 7) for number in range(1, 200)]
    many[150] |= {"total_ms": 900.0}
    document = documents.build(documents.recording(), documents.tables([documents.connection(1)], many), [])
    document["findings"] = [{"evidence": [{"id": "r199"}]}]
    drawn = waterfall.draw(document)
    assert drawn is not None
    assert (len(drawn.rows), drawn.left_out) == (60, 139)
    assert {"r1", "r151", "r199"} <= {row.id for row in drawn.rows}


def test_requests_whose_time_is_not_known_are_counted_as_not_drawn():
    rows = [documents.request(1, 0, 1), documents.request(2, 0, 2, total_ms=float("nan"))]
    drawn = waterfall.draw(
        documents.build(documents.recording(), documents.tables([documents.connection(1)], rows), [])
    )
    assert drawn is not None
    assert (len(drawn.rows), drawn.left_out) == (1, 1)


def test_nothing_to_draw():
    assert waterfall.draw(documents.build(documents.recording(), documents.tables([]), [])) is None
