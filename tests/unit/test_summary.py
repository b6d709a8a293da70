# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.document import build
from netdiag.summary import percentile
from tests.fakes import documents


def summary(connections, requests=(), **changes):
    return build(documents.recording(), documents.tables(connections, requests, **changes), [])["summary"]


def session(calls: int, connection_row: int = 0, **changes):
    return [
        documents.request(
            number + 1, connection_row, 50.0 * number, **{"reused": number > 0, "sequence": number + 1, **changes}
        )
        for number in range(calls)
    ]


def test_reuse_counts_what_could_have_been_reused():
    assert summary([documents.connection(1)], session(5))["reuse"] == 1.0
    per_call = [documents.connection(number) for number in (1, 2, 3)]
    calls = [documents.request(number, number - 1, 50.0 * number) for number in (1, 2, 3)]
    assert summary(per_call, calls)["reuse"] == 0.0


def test_reuse_is_null_where_none_could_be():
    two_hosts = [documents.connection(1), documents.connection(2, remote_ip="203.0.113.9")]
    calls = [documents.request(1, 0), documents.request(2, 1)]
    assert summary(two_hosts, calls)["reuse"] is None
    assert summary([], [])["reuse"] is None


def test_ports_are_hosts_of_their_own():
    rows = [documents.connection(1), documents.connection(2, remote_port=9090)]
    both = summary(rows, [documents.request(1, 0), documents.request(2, 1)])
    assert [(row["host"], row["port"], row["requests"]) for row in both["by_host"]] == [
        ("198.51.100.7", 8080, 1),
        ("198.51.100.7", 9090, 1),
    ]


def test_requests_unknown_are_null_not_zero():
    sealed = documents.connection(1, requests=math.nan, encrypted=True)
    assert summary([sealed])["requests"] is None
    assert summary([sealed])["errors"] is None
    assert summary([sealed])["time_ms"] is None
    silent = documents.connection(1, requests=math.nan, bytes_received=0)
    assert summary([silent])["requests"] == 0


def test_errors_and_retries_are_null_where_nobody_can_tell():
    plain = summary([documents.connection(1)], session(2))
    assert plain["errors"] is None
    assert plain["retries"] is None
    told = summary([documents.connection(1)], session(2, status=429, attempt=2))
    assert (told["errors"], told["retries"]) == (2, 2)
    fine = summary([documents.connection(1)], session(2, status=200, attempt=1))
    assert (fine["errors"], fine["retries"]) == (0, 0)


def test_a_call_between_two_traced_processes_counts_once():
    rows = [documents.connection(1), documents.connection(2, role="server")]
    requests = [documents.request(1, 0), documents.request(2, 1)]
    assert summary(rows, requests)["connections"] == 1
    assert summary(rows, requests)["requests"] == 1
    assert summary(rows[1:], [documents.request(1, 0)])["connections"] == 1


def test_failed_attempts_are_not_connections():
    rows = [
        documents.connection(1),
        documents.connection(2, outcome="refused"),
        documents.connection(3, outcome="pending"),
    ]
    counted = summary(rows)
    assert (counted["connections"], counted["failed_connections"]) == (1, 1)


def test_parts_add_up_to_the_total():
    counted = summary([documents.connection(1)], session(3))
    assert sum(part["ms"] or 0 for part in counted["time"]) == pytest.approx(counted["time_ms"])
    assert sum(part["share"] or 0 for part in counted["time"]) == pytest.approx(1.0)


def test_a_part_that_nobody_saw_is_null():
    parts = {part["part"]: part for part in summary([documents.connection(1)], session(3))["time"]}
    assert parts["dns"]["ms"] is None
    assert parts["dns"]["share"] is None
    assert "queue" not in parts


def test_the_queue_is_a_part_where_calls_waited():
    parts = {part["part"] for part in summary([documents.connection(1)], session(3, queue_ms=2.0))["time"]}
    assert "queue" in parts


def test_resumption():
    rows = [documents.connection(number) for number in (1, 2, 3)]
    shakes = [
        {"id": f"h{row + 1}", "connection": row, "outcome": "completed", "resumed": row > 1, "sni": "a.example"}
        for row in range(3)
    ]
    counted = summary(rows, handshakes=documents.rows("handshakes", shakes))
    assert counted["resumption"] == 0.5


def test_one_value_has_no_jitter():
    assert summary([documents.connection(1)], session(1))["wait_ms"]["jitter"] is None


@given(st.lists(st.floats(0, 1e9), min_size=1), st.floats(0, 1))
def test_percentiles_agree_with_numpy(numbers, share):
    numbers.sort()
    assert percentile(numbers, share) == pytest.approx(float(np.percentile(numbers, 100 * share)), rel=1e-9, abs=1e-6)


def test_hosts_add_up():
    rows = [documents.connection(1), documents.connection(2, remote_name="api.example", remote_ip="203.0.113.1")]
    counted = summary(rows, [*session(3), documents.request(4, 1, 500.0)])
    assert sum(row["requests"] for row in counted["by_host"]) == counted["requests"]
    assert sum(row["connections"] for row in counted["by_host"]) == counted["connections"]
    assert counted["by_host"][0]["requests"] == 3
