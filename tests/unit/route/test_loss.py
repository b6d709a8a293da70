# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.loss import lower, of, upper
from netdiag.route.model import Attempt, Connect, ConnectOutcome
from tests.fakes.routes import attempt, connect


@pytest.mark.parametrize(("sent", "needed"), [(20, 2), (50, 4), (100, 6), (200, 10), (1000, 39)])
def test_so_many_losses_prove_more_than_three_per_cent(sent, needed):
    assert lower(needed, sent) > 0.03
    assert lower(needed - 1, sent) <= 0.03


def test_none_of_thirty_lost_leaves_a_tenth_possible():
    assert upper(0, 30) == pytest.approx(1 - 0.05 ** (1 / 30), abs=1e-9)


@given(st.integers(1, 2000).flatmap(lambda sent: st.tuples(st.integers(0, sent), st.just(sent))))
def test_the_bounds_hold_the_share(counts):
    lost, sent = counts
    assert 0 <= lower(lost, sent) <= lost / sent <= upper(lost, sent) <= 1


def test_a_second_syn_is_a_loss_and_a_refusal_is_an_answer():
    refused = Attempt(started_ns=0, source_port=1, outcome=ConnectOutcome.REFUSED, connect_ms=3.0)
    local = Attempt(started_ns=0, source_port=1, outcome=ConnectOutcome.FAILED)
    barred = Attempt(started_ns=0, source_port=1, outcome=ConnectOutcome.UNREACHABLE)
    attempts = (attempt(5.0), attempt(1005.0, again=1), attempt(None), refused, local, barred)
    counted = of([Connect(ip="203.0.113.10", port=443, attempts=attempts)])
    assert (counted.lost, counted.sent) == (2, 4)


def test_nothing_sent_has_no_bounds():
    counted = of([connect([])])
    assert (counted.lost, counted.sent, counted.low, counted.high) == (0, 0, None, None)
