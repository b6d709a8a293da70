# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.analysis.case import Options, prepare


def test_the_look_up_belongs_to_the_set_up(stage):
    row = stage.connection(50, [0.0, 10.0])
    other = stage.connection(500, [0.0])
    plain = prepare(stage.tables(), Options()).links
    for number, (connection, took) in enumerate(((row, 40.0), (row, 0.0), (other, 0.0))):
        at = stage.connections[connection]["opened_ns"]
        stage.requests.append(
            {
                "id": f"r{number}",
                "connection": connection,
                "sequence": 1,
                "source": "sockets",
                "dns_ms": took,
                "began_ns": at,
            }
        )
    links = prepare(stage.tables(), Options()).links
    assert links[row].setup_ms == pytest.approx(plain[row].setup_ms + 40)
    assert links[other].setup_ms == pytest.approx(plain[other].setup_ms)
