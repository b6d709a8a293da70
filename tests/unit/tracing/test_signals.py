# SPDX-License-Identifier: Apache-2.0
"""Signals come out of the same wait as descriptors, and the handlers of before come back."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

if sys.platform != "linux":
    pytest.skip("traces on Linux only", allow_module_level=True)

from netdiag.tracing.signals import Signals


def test_a_signal_ends_the_wait():
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.wait([], 10.0) == ([], [signal.SIGINT])
        assert signals.wait([], 0.01) == ([], [])


def test_several_signals_are_all_told():
    with Signals(also=(signal.SIGQUIT,)) as signals:
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
            os.kill(os.getpid(), number)
        assert signals.wait([], 10.0)[1] == [signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]


def test_a_descriptor_ends_the_wait():
    reader, writer = os.pipe()
    with Signals() as signals:
        os.write(writer, b"x")
        assert signals.wait([reader], None) == ([reader], [])
        os.close(writer)
        os.read(reader, 1)
        assert signals.wait([reader], None) == ([reader], [])
    os.close(reader)


def test_the_handlers_of_before_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Signals():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_an_ignored_hang_up_stays_ignored_and_ctrl_c_does_not():
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGINT)}
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGINT)
            assert signals.wait([], 10.0)[1] == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_another_thread_than_the_main_one_catches_nothing():
    seen = []

    def enter() -> None:
        with Signals() as signals:
            seen.append((signals.wait([], 0.01), signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [(([], []), signal.getsignal(signal.SIGTERM))]
