# SPDX-License-Identifier: Apache-2.0
"""The figures are those of the report's summary."""

from __future__ import annotations

import pytest

from netdiag import document, testing
from netdiag.testing import RecordingBuilder
from netdiag.tui import aggregate, exact
from tests.fakes import dashboards


def both():
    built = dashboards.tables()
    made = document.build(RecordingBuilder().recording(), built, [])["summary"]
    calls, ends = exact.calls(built), exact.ends(built)
    return made, aggregate.figures(calls, ends, 2e9, live=False)


def test_counts_and_shares_are_those_of_the_summary():
    summary, figures = both()
    assert figures.requests == summary["requests"]
    assert figures.connections == summary["connections"]
    assert figures.failed_connections == summary["failed_connections"]
    assert figures.errors == summary["errors"]
    assert figures.retries == summary["retries"]
    assert figures.reuse == pytest.approx(summary["reuse"])
    assert figures.time_ms == pytest.approx(summary["time_ms"])


def test_percentiles_are_those_of_the_summary():
    summary, figures = both()
    assert figures.wait_ms == pytest.approx([summary["wait_ms"][name] for name in ("p50", "p95", "p99")])
    assert figures.first_token_ms[0] == pytest.approx(summary["first_token_ms"]["p50"])


def test_parts_add_up_as_in_the_summary():
    summary, figures = both()
    told = {row["part"]: row["ms"] for row in summary["time"]}
    assert figures.parts["wait"] == pytest.approx(told["server"])
    assert figures.parts["receive"] == pytest.approx(told["receive"])
    assert "dns" not in figures.parts  # nobody could tell


def test_rows_are_processes_and_hosts_the_slowest_first():
    built = dashboards.tables()
    rows = aggregate.rows(exact.calls(built), exact.ends(built), {100: "python3"}, 2e9, live=False)
    assert [(row.pid, row.host) for row in rows] == [
        (100, "api.example.com"), (200, "192.0.2.7:8000"), (100, "192.0.2.1:8080"),
    ]  # fmt: skip
    assert rows[0].program == "python3"
    assert rows[1].program is None
    assert rows[2].figures.failed_connections == 1


def test_a_rate_of_now_is_that_of_the_last_seconds():
    built = dashboards.tables()
    calls, ends = exact.calls(built), exact.ends(built)
    assert aggregate.figures(calls, ends, 2e9, live=True).requests_s == pytest.approx(1.5)
    assert aggregate.figures(calls, ends, 60e9, live=True).requests_s == 0
    assert aggregate.figures(calls, ends, 60e9, live=False).requests_s == pytest.approx(3 / 60)


def test_history_has_each_request_once():
    built = dashboards.tables()
    rates, step = aggregate.rates(exact.calls(built), exact.ends(built), 2e9, 60, live=False)
    assert step == pytest.approx(2 / 60)
    counted = [one for one in rates[0].history if one is not None]
    assert len(counted) == len(rates[0].history)
    assert sum(counted) * step == pytest.approx(3)
    waits = [one for one in rates[2].history if one is not None]
    assert waits == [20.0, 40.0, 50.0]


def test_without_rows_nothing_is_claimed():
    built = testing.tables()
    figures = aggregate.figures(exact.calls(built), exact.ends(built), 0.0, live=False)
    assert figures.requests == 0
    assert figures.reuse is None
    assert figures.wait_ms == (None, None, None)
    assert aggregate.rows(exact.calls(built), exact.ends(built), {}, 0.0, live=False) == ()


def test_data_that_nobody_could_tell_is_no_zero():
    built = dashboards.tables()
    ends = exact.ends(built)
    assert aggregate.figures(exact.calls(testing.tables()), ends, 2e9, live=False).requests is None
