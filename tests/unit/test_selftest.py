# SPDX-License-Identifier: Apache-2.0
"""The self-test's judgement, on tables that are right and on tables that are wrong in one place each."""

from __future__ import annotations

import dataclasses

import pytest

from netdiag.selftest import Connection, compare
from netdiag.tables import Loss
from netdiag.testing import connection, tables

START = 1_000_000_000
REFUSED = 4242


def at(ms):
    """Return an instant on the clock of the truth."""
    return START + round(ms * 1e6)


TRUTH = Connection(
    address="127.0.0.1",
    local_port=40000,
    remote_port=50000,
    pid=7,
    client_tid=8,
    server_tid=7,
    sent=100,
    received=3000,
    connect=(at(10), at(11)),
    send=(at(12), at(13)),
    close=(at(50), at(52)),
    reset=False,
    late=(19.5, 20.5),
)


def ends(**wrong):
    """Return both ends and a refused connect as recorded; `wrong` replaces columns of the client's end."""
    client = {
        "pid": 7, "tid": 8, "role": "client", "local_ip": "127.0.0.1", "local_port": 40000.0, "remote_port": 50000.0,
        "remote_ip": "127.0.0.1", "bytes_sent": 100.0, "bytes_received": 3000.0, "opened_ns": 10.2e6,
        "established_ns": 10.5e6, "first_sent_ns": 12.5e6, "first_received_ns": 15e6, "last_read_ns": 35e6,
        "closing_ns": 51e6, "closed_by": "local", "close": "fin",
    }  # fmt: skip
    server = client | {
        "tid": 7, "role": "server", "local_port": 50000.0, "remote_port": 40000.0, "bytes_sent": 3000.0,
        "bytes_received": 100.0, "closed_by": "remote",
    }  # fmt: skip
    refused = {"outcome": "refused", "local_port": 41000.0, "remote_port": float(REFUSED)}
    return [connection(**(client | wrong)), connection(**server), connection(**refused)]


def mismatches(rows, *, truth=TRUTH, **settings):
    return list(compare(tables(connections=rows, **settings), [truth], REFUSED, START))


def test_what_is_right_is_passed():
    assert mismatches(ends()) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("pid", 70),
        ("tid", 7),
        ("role", "server"),
        ("local_ip", "127.0.0.2"),
        ("remote_ip", None),
        ("outcome", "pending"),
        ("bytes_sent", 101.0),
        ("bytes_received", 2999.0),
        ("closed_by", "remote"),
        ("close", "rst"),
        ("opened_ns", 9.9e6),
        ("established_ns", 11.1e6),
        ("closing_ns", float("nan")),
        ("closing_ns", 53e6),
        ("first_sent_ns", 11.9e6),
    ],
)
def test_each_wrong_fact_is_named(column, value):
    (sentence,) = mismatches(ends(**{column: value}))
    assert sentence.startswith(f"connection 1, client: {column} is ")


@pytest.mark.parametrize("last_read", [29e6, 41e6])
def test_lateness_outside_of_what_was_planted_is_named(last_read):
    (sentence,) = mismatches(ends(last_read_ns=last_read))
    assert "the wait of the answer" in sentence


def test_an_end_that_was_not_seen_is_named():
    assert mismatches(ends()[1:]) == ["connection 1: its client's end was not seen"]


def test_a_wrong_way_of_closing_is_named_for_both_ends():
    truth = dataclasses.replace(TRUTH, reset=True)
    assert len(mismatches(ends(), truth=truth)) == 2


def test_a_refused_connect_must_be_there_once():
    assert mismatches(ends()[:2]) == ["a refused connect was seen as nothing"]
    assert mismatches([*ends(), ends()[2]]) == ["a refused connect was seen as refused, refused"]


def test_losses_and_a_cut_are_named():
    lost = Loss(probe="tcp", seen=5, lost=2)
    found = mismatches(ends(), losses=[lost, Loss(probe="tcp_io", seen=5, lost=0)], truncated=True)
    assert found == ["the recording is incomplete", "2 of the records 'tcp' were lost"]
