# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from netdiag.lab.asked import compare_questions


def compared(tmp_path, *told, **fact):
    facts = tmp_path / "facts.jsonl"
    base = {
        "name": "api.test",
        "qtype": "A",
        "transport": "udp",
        "began": 0,
        "ended": 20_000_000,
        "code": 0,
        "cut": False,
    }
    facts.write_text(json.dumps(base | fact) + "\n")
    rows = [
        {"source": "wire", "name": "api.test", "qtype": "A", "duration_ms": 20.3, "error": None} | row for row in told
    ]
    return compare_questions({"resolutions": rows}, facts)


def test_equal(tmp_path):
    assert compared(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("row", "word"),
    [({"name": "b.test"}, "never asked"), ({"duration_ms": 5.0}, "truly 20.0"), ({"error": "NXDOMAIN"}, "NXDOMAIN")],
)
def test_differences(tmp_path, row, word):
    assert word in " ".join(compared(tmp_path, row))


def test_a_question_that_was_not_seen(tmp_path):
    assert compared(tmp_path) == ["asked for api.test A, not in the document"]
