# SPDX-License-Identifier: Apache-2.0
"""In how many pieces answers came, and whether a reset cut them off."""

from __future__ import annotations

import pytest

from netdiag.analysis.answers import with_answers
from netdiag.analysis.case import Options, prepare
from netdiag.analysis.links import links_of

RESET = {"closed_by": "remote", "close": "rst"}


def links(stage):
    return prepare(stage.tables(), Options()).links


def test_tickets_before_the_answer_are_none_of_its_pieces(stage):
    row = stage.connection(0, [0], tls=False, turn={"received_bursts": 4.0})
    stage.read(row, 1.0, 2)  # before the first byte of the answer at 20 ms
    stage.read(row, 21.0, 2)
    (link,) = links(stage)
    assert link.calls[-1].received_bursts == 2


def test_each_answer_has_its_own_pieces(stage):
    row = stage.connection(0, [0, 100], tls=False)
    stage.read(row, 21.0, 3)
    stage.read(row, 145.0, 2)
    (link,) = links(stage)
    assert [call.received_bursts for call in link.calls] == [3, 2]


def test_an_answer_that_nobody_read_came_in_one_piece_at_least(stage):
    row = stage.connection(0, [0], tls=False)
    stage.read(row, 1.0)
    assert links(stage)[0].calls[-1].received_bursts == 1


def test_what_is_read_on_a_connection_without_calls_is_no_answer(stage):
    stage.read(stage.connection(0, []), 21.0, 2)
    assert links(stage)[0].calls == ()


@pytest.mark.parametrize("idle", [0.2, 12.0, 80.0, 900.0])
def test_a_reset_soon_after_part_of_an_answer_cuts_it_off(stage, idle):
    stage.connection(0, [0], idle=idle, **RESET)
    assert links(stage)[0].cut_off


@pytest.mark.parametrize(("idle", "cut"), [(1500.0, True), (8000.0, False)])
def test_a_stream_may_stall_before_its_reset(stage, idle, cut):
    row = stage.connection(0, [0], idle=idle, tls=False, **RESET)
    stage.read(row, 21.0, 5)
    assert links(stage)[0].cut_off is cut


def test_a_reset_long_after_an_answer_cuts_nothing_off(stage):
    stage.connection(0, [0], idle=1500.0, **RESET)
    assert not links(stage)[0].cut_off


def test_a_fin_cuts_nothing_off_as_far_as_is_known(stage):
    stage.connection(0, [0], idle=0.2, closed_by="remote", close="fin")
    assert not links(stage)[0].cut_off


def test_our_own_reset_cuts_nothing_off(stage):
    stage.connection(0, [0], idle=0.2, closed_by="local", close="rst")
    assert not links(stage)[0].cut_off


def test_an_answer_as_large_as_whole_ones_was_whole(stage):
    stage.connection(0, [0, 50, 50], idle=0.2, **RESET)
    assert not links(stage)[0].cut_off


def test_an_answer_of_another_size_was_not(stage):
    stage.connection(0, [0, 50, 50], idle=0.2, turn={"received_bytes": 400.0}, **RESET)
    assert links(stage)[0].cut_off


def test_a_closing_alert_before_the_reset_says_that_all_was_said(stage):
    row = stage.connection(0, [0], idle=0.2, **RESET)
    stage.read(row, 60.0, close_notify=True)
    (link,) = links(stage)
    assert (link.farewell, link.cut_off) == (True, False)


def test_so_does_one_that_nobody_read(stage):
    stage.connection(0, [0], idle=0.2, unread=24.0, **RESET)
    assert not links(stage)[0].cut_off


def test_a_request_without_answer_was_cut_off(stage):
    stage.connection(0, [0], idle=9000.0, unanswered=True, **RESET)
    assert links(stage)[0].cut_off


def test_without_bursts_the_turns_count_the_pieces(stage):
    stage.connection(0, [0], tls=False, turn={"received_bursts": 7.0})
    tables = stage.tables()
    found = links_of(tables.connections, tables.turns, tables.requests)
    assert with_answers(found, tables.bursts)[0].calls[-1].received_bursts == 7
