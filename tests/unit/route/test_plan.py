# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import pytest

from netdiag.route.model import Protocol
from netdiag.route.plan import Plan


def test_without_being_asked_only_the_plain_check_is_made():
    plan = Plan(host="api.example.com")
    assert (plan.port, plan.protocol, plan.families) == (443, Protocol.TCP, (4, 6))
    assert (plan.origins, plan.inside, plan.odd, plan.offline) == (False, False, False, False)
    assert (plan.resolvers, plan.marks, plan.proxy) == ((), (), None)
    assert plan.privileged is None


def test_a_plan_is_not_changed_while_it_is_carried_out():
    plan = Plan(host="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.host = "b"  # type: ignore[misc]
    assert dataclasses.replace(plan, port=8443).port == 8443


def test_nothing_is_told_by_its_place():
    with pytest.raises(TypeError):
        Plan("a")  # type: ignore[call-arg]
