# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.analysis.case import Options, prepare


def case(stage):
    return prepare(stage.tables(), Options())


def test_connections_are_grouped_by_program_and_host(stage):
    stage.connection(5)
    stage.connection(0)
    stage.connection(0, pid=2.0)
    stage.connection(0, remote_port=8443.0)
    groups = case(stage).groups
    assert [(group.pid, group.host, len(group.links)) for group in groups] == [
        (1, "192.0.2.1:443", 2),
        (2, "192.0.2.1:443", 1),
        (1, "192.0.2.1:8443", 1),
    ]
    assert [link.id for link in groups[0].links] == ["c2", "c1"]


def test_addresses_of_one_name_are_one_host(stage):
    stage.connection(0, remote_name="api.example.test")
    stage.connection(1, remote_name="api.example.test", remote_ip="192.0.2.2")
    assert [group.host for group in case(stage).groups] == ["api.example.test:443"]


def test_accepted_connections_are_no_clients(stage):
    stage.connection(0, role="server")
    found = case(stage)
    assert found.groups == ()
    assert found.clients == ()
    assert len(found.links) == 1


def test_a_capture_knows_no_program(stage):
    stage.connection(0, pid=math.nan)
    (group,) = case(stage).groups
    assert math.isnan(group.pid)
    assert group.process is None
    assert math.isnan(group.end_ns)


def test_loaded_libraries_hide_those_that_are_only_installed(stage):
    stage.processes.append(
        {
            "pid": 1,
            "libraries": [
                {"name": "requests", "version": "2", "evidence": "mapped md.so"},
                {"name": "httpx", "version": "0", "evidence": "installed as httpx 0"},
            ],
        }
    )
    process = case(stage).processes[1]
    assert (process.libraries, process.installed) == (("requests",), ())


def test_installed_libraries_are_guesses(stage):
    stage.processes.append({"pid": 1, "libraries": [{"name": "httpx", "evidence": "installed as httpx 0"}]})
    process = case(stage).processes[1]
    assert (process.libraries, process.installed) == ((), ("httpx",))


def test_a_process_without_a_list_of_libraries(stage):
    stage.processes.append({"pid": 1, "libraries": None})
    assert case(stage).processes[1].libraries == ()


def test_total_time_is_that_of_requests_where_they_were_seen(stage):
    row = stage.connection(0, tls=False)
    stage.requests.append({"connection": row, "source": "plaintext", "total_ms": 123.0, "sequence": 1})
    assert case(stage).total_ms == 123.0


def test_total_time_is_busy_time_otherwise(stage):
    stage.connection(0, [0, 100], tls=False)
    assert case(stage).total_ms == pytest.approx(40.05)


def test_total_time_of_nothing_is_not_known(stage):
    assert math.isnan(case(stage).total_ms)


def test_calls_of_a_group(stage):
    stage.connection(0, [0, 5], tls=False)
    stage.connection(0, [0])
    (group,) = case(stage).groups
    assert group.calls == 3
    assert not group.exact
