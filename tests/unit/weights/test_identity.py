# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.weights.identity import LEAST_SAMPLES, Identity, Part, identity
from netdiag.weights.model import Thread
from tests.fakes import loads


def said_of(thread: Thread) -> Identity:
    said = identity(loads.load([thread]))
    assert said is not None
    return said


def share(part: Part) -> float:
    assert part.share is not None
    return part.share


def parts(said):
    return {part.name: part.ms for part in said.parts}


def test_without_a_thread_there_is_none():
    assert identity(loads.load(threads=[])) is None


def test_the_parts_add_up_to_the_life_of_the_thread():
    said = said_of(loads.thread(samples={"user": 25, "read": 75}, blocked={"fault": 2_000.0}, ready_ms=500.0))
    assert sum(part.ms for part in said.parts) == pytest.approx(said.wall_ms) == 10_000.0
    found = parts(said)
    assert (found["user"], found["read-cpu"], found["fault-blocked"]) == (250.0, 750.0, 2_000.0)
    assert (found["waiting-for-processor"], found["rest"]) == (500.0, 6_500.0)
    assert sum(share(part) for part in said.parts) == pytest.approx(1.0)


def test_few_samples_tell_nothing_apart():
    few = said_of(loads.thread(samples={"user": LEAST_SAMPLES - 1}))
    enough = said_of(loads.thread(samples={"user": LEAST_SAMPLES}))
    assert (few.split, few.ms("cpu"), few.ms("user")) == (False, 1_000.0, 0.0)
    assert (enough.split, enough.ms("cpu"), enough.ms("user")) == (True, 0.0, 1_000.0)


def test_only_what_is_sampled_has_a_margin_and_it_never_is_zero():
    said = said_of(loads.thread(samples={"user": 100}, blocked={"read": 10.0}))
    margins = {part.name: part.margin_ms for part in said.parts}
    assert margins["user"] is not None
    assert margins["user"] > 0
    assert margins["read-blocked"] is margins["rest"] is None


def test_of_an_instant_no_share_is_known():
    said = said_of(loads.thread(ended_ms=0.0, run_ms=0.0))
    assert {part.share for part in said.parts} == {None}
