# SPDX-License-Identifier: Apache-2.0
"""The whole check, by its command, on every network that is shipped: right, and nothing over-claimed."""

from __future__ import annotations

import pytest

from netdiag.route.lab.topology import load, shipped
from netdiag.route.lab.trials import check, differences
from netdiag.route.lab.world import NOBODY, World

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

ROOT_TOO = ("near", "boomerang-berlin", "steering-berlin", "near-packets", "two-ways", "translated", "thirty-hops")


def test_forty_networks_are_shipped_and_each_has_its_verdict():
    assert len(shipped()) >= 40
    assert all(load(path).client_place is not None and load(path).truth.as_path for path in shipped().values())


@pytest.mark.parametrize(
    ("name", "uid"), [*((name, NOBODY) for name in shipped()), *((name, 0) for name in ROOT_TOO)], ids=str
)
def test_the_verdict_is_the_one_in_the_file(name, uid):
    with World(shipped()[name], seed=0) as world:
        found = check(world, uid=uid)
        assert differences(world.topology, found, root=uid == 0) == []


@pytest.mark.parametrize("uid", [NOBODY, 0])
def test_nobody_is_asked_but_those_that_are_listed(uid):
    with World(shipped()["near"]) as world:
        asked = check(world, uid=uid)["asked"]
    allowed = {"203.0.113.10", "2001:db8:cb00:7100::10", "127.0.0.53"}
    assert {str(one["address"] if isinstance(one, dict) else one) for one in asked} <= allowed
