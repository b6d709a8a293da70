# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.decode.http.windows import Windows


def test_a_shut_stream_waits_for_its_update():
    windows = Windows(known=True)
    windows.set_initial(100)
    windows.open(1)
    windows.use(1, 100, 1_000)
    assert windows.update(1, 50, 5_000) == 4_000
    assert windows.update(1, 50, 9_000) == 0


def test_a_shut_connection_stops_all():
    windows = Windows(known=True)
    windows.open(1)
    windows.use(1, 65_535, 10)
    assert windows.update(0, 100, 30) == 20


def test_a_larger_initial_window_opens_streams():
    windows = Windows(known=True)
    windows.set_initial(10)
    windows.open(1)
    windows.set_initial(100)
    windows.use(1, 50, 1)
    assert windows.update(1, 1, 9) == 0


def test_a_joined_connection_tells_nothing():
    windows = Windows(known=False)
    windows.open(1)
    windows.use(1, 70_000, 1)
    assert windows.update(1, 70_000, 9) == 0
    assert windows.update(77, 5, 9) == 0
