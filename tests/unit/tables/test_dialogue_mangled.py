# SPDX-License-Identifier: Apache-2.0
"""Recordings whose records of requests say anything: tables come out, and nothing in them is impossible."""

from __future__ import annotations

import random

import numpy as np
import pytest

from netdiag.recording.reader import Recording
from netdiag.tables import build
from netdiag.testing import START_NS
from tests.fakes.dialogue import Said, Script
from tests.fakes.mangle import COUNT

NUMBERS = (
    0,
    1,
    2,
    7,
    255,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    START_NS,
    START_NS + 10**9,
)


def good():
    script = Script()
    stream = [(70, 120, 3, 0), (90, 130, 7, 1), (110, 140, 7, 1)]
    for number in range(4):
        said = [
            Said(at=10 + number),
            Said(at=150 + number, chunks=[(at + 150, size, kind, tokens) for at, size, kind, tokens in stream]),
        ]
        script.conversation(
            script.connection(said) if number else 0, said, whole=number != 2, how=("inside", "size")[number % 2]
        )
    return script.recording()


def mangled(whole, draw):
    """Return the recording with members of its records of requests and chunks replaced."""
    runs = {name: [np.array(run) for run in parts] for name, parts in whole.runs.items()}
    for name in ("http_request", "http_chunk"):
        for run in runs[name]:
            for _ in range(draw.choice((1, 1, 2, 6))):
                member = draw.choice([each for each in run.dtype.names or () if run.dtype[each].kind == "u"])
                limit = (1 << 8 * run.dtype[member].itemsize) - 1
                run[member][draw.randrange(len(run))] = draw.choice(NUMBERS) & limit
    facts = [dict(fact) for fact in whole.facts]
    for fact in facts:
        if fact["kind"] in ("conversation", "strings") and draw.random() < 0.3:
            fact[draw.choice(list(fact)[1:])] = draw.choice((None, -1, 1 << 70, "x", [], {}, 2.5, True))
    return Recording(header=whole.header, layouts=whole.layouts, runs=runs, facts=facts, end=whole.end)


@pytest.mark.fuzz
def test_no_mangled_request_hurts_the_tables():
    draw, whole = random.Random(9), good()
    plaintext = 0
    for _ in range(max(COUNT // 40, 40)):
        made = build(mangled(whole, draw))
        requests = made.requests
        assert requests["connection"].between(-1, len(made.connections) - 1).all()
        parts = ["send_ms", "wait_ms", "receive_ms", "reader_lag_ms", "unattributed_ms"]
        assert not (requests[parts] < 0).any(axis=None)
        assert made.chunks["request"].between(0, max(len(requests) - 1, 0)).all()
        plaintext += (requests["source"] == "plaintext").sum()
    assert plaintext > 0
