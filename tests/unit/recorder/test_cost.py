# SPDX-License-Identifier: Apache-2.0
"""The estimate of what the kernel programs cost, from the ticks in which they were timed."""

from __future__ import annotations

import os

import pytest

from netdiag.recorder.cost import KernelTime


class Kernel:
    """Counts descriptors and gives the time that the test sets."""

    def __init__(self, *, allowed: bool = True) -> None:
        self.now = 0.0
        self.allowed = allowed
        self.opened: list[int] = []

    def enable(self) -> int | None:
        if not self.allowed:
            return None
        self.opened.append(os.open(os.devnull, os.O_RDONLY))
        return self.opened[-1]

    def clock(self) -> float:
        return self.now


def ticks(kernel: Kernel, cost: KernelTime, count: int, each: int) -> int:
    written = 0
    cost.start(written)
    for _ in range(count):
        kernel.now += 1
        written += each
        cost.tick(written)
    return written


def test_a_short_trace_is_timed_from_end_to_end():
    kernel = Kernel()
    cost = KernelTime(kernel.enable, kernel.clock)
    cost.start(5)
    kernel.now = 0.4
    assert cost.finish(105, 3_000_000) == 3.0


def test_one_tick_in_ten_is_timed_and_the_rest_estimated_from_the_records():
    kernel = Kernel()
    cost = KernelTime(kernel.enable, kernel.clock)
    written = ticks(kernel, cost, 20, 100)
    assert len(kernel.opened) == 3  # at 0, 10 and 20 s
    assert cost.finish(written, 2_000_000) == pytest.approx(20.0)


def test_without_records_the_rest_is_estimated_from_the_time():
    kernel = Kernel()
    cost = KernelTime(kernel.enable, kernel.clock)
    ticks(kernel, cost, 5, 0)
    assert cost.finish(0, 1_000_000) == pytest.approx(5.0)


def test_what_may_not_be_timed_is_not_known():
    kernel = Kernel(allowed=False)
    cost = KernelTime(kernel.enable, kernel.clock)
    written = ticks(kernel, cost, 12, 10)
    assert cost.finish(written, 0) is None


def test_no_descriptor_is_left():
    kernel = Kernel()
    cost = KernelTime(kernel.enable, kernel.clock)
    cost.finish(ticks(kernel, cost, 21, 1), 0)
    for fd in kernel.opened:
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(fd)
