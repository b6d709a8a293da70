# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest


def calls(stage, count, **columns):
    for turn in range(count):
        stage.connection(turn * 1000, **{"closed_by": "local", "idle": 8, "proxied": True} | columns)


@pytest.mark.parametrize("side", ["local", "remote"])
def test_a_tunnel_for_each_call(stage, side):
    calls(stage, 5, closed_by=side)
    finding = stage.findings()[0]
    assert (finding.code, finding.count, finding.cause) == ("reuse.proxy-connect", 5, side)
    assert finding.cost_ms > 0
    assert not {"reuse.client-per-call", "reuse.server-close"} & set(stage.codes())


def test_two_tunnels_are_no_habit_and_other_connections_no_tunnels(stage):
    calls(stage, 2)
    assert "reuse.proxy-connect" not in stage.codes()


def test_without_connect_it_is_a_client_per_call(stage):
    calls(stage, 5, proxied=False)
    assert stage.codes() == ["reuse.client-per-call"]


def test_one_tunnel_for_many_calls_is_healthy(stage):
    stage.connection(0, [0, 10, 10, 10], proxied=True)
    assert stage.codes() == []
