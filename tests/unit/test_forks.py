# SPDX-License-Identifier: Apache-2.0
"""Pieces of work in processes of their own: in order, with their errors, and nobody left behind."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable

import pytest

from netdiag.errors import InputUnreadable, NetdiagError
from netdiag.forks import apart, each

two_processors = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")


def test_results_come_in_order() -> None:
    def work(number: int) -> int:
        time.sleep(0.02 * (number % 2))
        return number * 10

    assert list(each(work, 7)) == [0, 10, 20, 30, 40, 50, 60]
    assert list(each(work, 0)) == []


@two_processors
def test_work_is_done_elsewhere_and_not_where_there_is_one_piece() -> None:
    assert os.getpid() not in set(each(lambda _: os.getpid(), 4))
    assert len(set(each(lambda _: os.getpid(), 4))) == 2
    assert list(each(lambda _: os.getpid(), 1)) == [os.getpid()]


def test_errors_are_raised_here() -> None:
    def work(number: int) -> int:
        if number == 2:
            raise InputUnreadable("piece 2")
        return number

    found = each(work, 4)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(InputUnreadable, match="piece 2"):
        next(found)
    assert not multiprocessing.active_children()


@two_processors
def test_a_process_that_is_killed_is_told() -> None:
    with pytest.raises(NetdiagError, match="ended before"):
        list(each(lambda _: os.kill(os.getpid(), 9), 4))
    assert not multiprocessing.active_children()


@two_processors
def test_whoever_stops_waiting_leaves_no_process() -> None:
    found = each(lambda _: bytes(1 << 20), 8)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


def test_one_piece_apart_passes_on_what_it_says() -> None:
    heard: list[tuple[int, int | None]] = []

    def work(tell: Callable[..., None]) -> int:
        tell(1, None)
        tell(2, 3)
        return os.getpid()

    assert apart(work, lambda done, of: heard.append((done, of))) != os.getpid()
    assert heard == [(1, None), (2, 3)]
    assert apart(lambda tell: tell("nobody listens")) is None
    assert not multiprocessing.active_children()


def test_errors_apart_are_raised_here(capfd: pytest.CaptureFixture[str]) -> None:
    def broken(_: object) -> None:
        raise InputUnreadable("byte 7", hint="try another")

    with pytest.raises(InputUnreadable, match="byte 7") as caught:
        apart(broken)
    assert caught.value.hint == "try another"
    with pytest.raises(NetdiagError, match="ended before"):
        apart(lambda _: os.kill(os.getpid(), 9))

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(NetdiagError, match="ended before"):
        apart(interrupted)
    assert capfd.readouterr().err == ""  # no traceback of the other process
    assert not multiprocessing.active_children()
