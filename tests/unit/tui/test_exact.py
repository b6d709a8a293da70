# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from netdiag import testing
from netdiag.tui import exact
from tests.fakes import dashboards


def test_calls_are_in_order_of_their_beginning_with_host_and_label():
    calls = exact.calls(dashboards.tables())
    assert calls.began_ns.tolist() == [12e6, 300e6, 400e6]
    assert list(calls.host) == ["api.example.com", "192.0.2.7:8000", "192.0.2.7:8000"]
    assert calls.label[0] == "POST /v1/chat"
    assert calls.first_token_ms[0] == 50.0
    assert np.isnan(calls.first_token_ms[1])
    assert calls.stream.tolist() == [True, False, False]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_columns_of_unknown_things_may_hold_none_or_nan(missing):
    built = dashboards.tables()
    for name in ("method", "path", "host", "stream", "reused", "error"):
        built.requests[name] = (
            testing.tables(requests=[testing.request(0, 1)] * 3).requests[name].map(lambda _: missing)
        )
    calls = exact.calls(built)
    assert list(calls.label) == [None] * 3
    assert np.isnan(calls.reused).all()
    assert not calls.stream.any()


def test_servers_count_only_where_no_client_was_traced():
    rows = [testing.connection(), testing.connection(role="server")]
    asked = [testing.request(0, 1), testing.request(1, 1)]
    assert len(exact.calls(testing.tables(connections=rows, requests=asked))) == 1
    assert len(exact.ends(testing.tables(connections=rows, requests=asked))) == 1
    assert len(exact.ends(testing.tables(connections=rows[1:]))) == 1


def test_a_request_without_a_connection_is_no_servers():
    built = testing.tables(connections=[testing.connection(role="server")], requests=[testing.request(-1, 1)])
    assert len(exact.calls(built)) == 1
