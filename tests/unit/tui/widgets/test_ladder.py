# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.fakes import dashboards


def test_arrows_go_from_side_to_side_and_long_waits_are_named():
    text = dashboards.press("w", "home", "c", size=(100, 40))
    hello = next(line for line in text.splitlines() if "ClientHello" in line)
    answer = next(line for line in text.splitlines() if "ServerHello" in line)
    assert hello.rstrip().endswith("client")
    assert "▶" in hello
    assert "◀" in answer
    assert "3.0 ms server and network" in answer


def test_plain_arrows_are_ascii():
    text = dashboards.press("w", "home", "c", size=(100, 40), plain=True)
    assert next(line for line in text.splitlines() if "ClientHello" in line).count(">") == 1
