# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.tables.lookups import LookUp
from netdiag.tables.names import followed, name_servers, wait_for_names
from netdiag.testing import connection, request, tables

NAN = math.nan


def found(started, ended, answers=("192.0.2.1",), *, name="api.test", pid=100.0, row=0, questions=()):
    return LookUp(
        row=row, pid=pid, name=name, source="libc", started_ns=started * 1e6, ended_ns=ended * 1e6, answers=answers,
        error=None, questions=questions,
    )  # fmt: skip


def opened(at, **columns):
    return connection(opened_ns=at * 1e6, established_ns=(at + 1) * 1e6, **columns)


def waits(connections, lookups, **columns):
    made = tables(connections=connections, requests=[request(row, 0) for row in range(len(connections))])
    requests = made.requests.assign(
        dns_ms=NAN, unattributed_ms=0.0, started_ns=made.connections["opened_ns"].to_numpy()
    ).assign(**columns)
    return wait_for_names(requests, made.connections, lookups)


def test_a_request_begins_with_the_look_up_it_waited_for():
    (row,) = waits([opened(31)], [found(0, 30)]).to_dict("records")
    assert (row["dns_ms"], row["started_ns"]) == (pytest.approx(30), 0)
    assert row["total_ms"] == pytest.approx(100 + 31)
    assert row["unattributed_ms"] == pytest.approx(1)


def test_a_later_connection_waited_for_nothing():
    rows = waits([opened(31), opened(500)], [found(0, 30)])
    assert rows["dns_ms"].tolist() == pytest.approx([30, 0])


def test_connections_that_open_together_all_waited():
    rows = waits([opened(31), opened(32)], [found(0, 30)])
    assert rows["dns_ms"].tolist() == pytest.approx([30, 30])


def test_an_attempt_at_another_address_keeps_the_look_up():
    dead = opened(31, remote_ip="2001:db8::1", outcome="timeout", ended_ns=4031e6)
    rows = waits([dead, opened(4032)], [found(0, 30, ("2001:db8::1", "192.0.2.1"))])
    assert rows["dns_ms"].tolist()[1] == pytest.approx(30)
    assert rows["started_ns"].tolist()[1] == 0


def test_a_process_that_is_never_heard_may_look_up_in_secret():
    (row,) = waits([opened(31, pid=7.0)], [found(0, 30)]).to_dict("records")
    assert math.isnan(row["dns_ms"])


def test_a_connection_that_is_used_again_waits_for_no_name():
    (row,) = waits([opened(31)], [found(0, 30)], dns_ms=0.0).to_dict("records")
    assert row["dns_ms"] == 0


def test_names_come_from_the_last_look_up_before():
    lookups = [found(0, 5, name="old.test"), found(10, 15, name="new.test", row=1), found(90, 95, name="late.test")]
    made = tables(connections=[opened(20), opened(20, pid=7.0), opened(20, role="server"), opened(1)])
    assert [one and one.name for one in followed(made.connections, lookups)] == ["new.test", None, None, None]
    named = name_servers(made.connections.assign(remote_name=None), lookups)
    assert named["remote_name"].tolist() == ["new.test", None, None, None]


def test_a_name_on_the_wire_goes_before():
    made = tables(connections=[opened(20, remote_name="sni.test")])
    assert name_servers(made.connections, [found(0, 5)])["remote_name"].tolist() == ["sni.test"]
