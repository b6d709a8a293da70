# SPDX-License-Identifier: Apache-2.0
"""The self-test of routes: right on a network as it is, wrong where the truth is another."""

from __future__ import annotations

import pytest

from netdiag.route.lab.proof import compare, prove, traces
from netdiag.route.lab.topology import load, shipped
from netdiag.route.lab.world import World

pytestmark = pytest.mark.kernel


def test_the_self_test_is_right():
    for _ in range(3):  # round trips on a shared machine: the best of three
        proof = prove(rounds=2)
        if proof.right:
            break
    assert [check for check in proof.checks if not check.right] == []
    assert proof.largest_error_ms is not None
    assert len(proof.checks) > 30


def test_another_truth_is_found_out():
    with World(shipped()["plain"]) as world:
        (trace,) = traces(world, [{"ip": "203.0.113.10"}])
    checks, _ = compare(trace, load(shipped()["tunnel"]).sites[0].ways[0])
    assert [check.right for check in checks] == [False, True, False]
