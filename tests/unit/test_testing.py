# SPDX-License-Identifier: Apache-2.0
"""The builders build what they say."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.testing import (
    RecordingBuilder,
    burst,
    connection,
    layout,
    process,
    records_of,
    request,
    struct_layout,
    tables,
)


def test_rows_become_tables_with_ids_and_numbers():
    made = tables(
        connections=[connection(), connection(closed_by="local", closing_at=100)],
        requests=[request(0, 1), request(0, 500), request(1, 2, wait_ms=7)],
        bursts=[burst(0, "send", 1, 300), burst(0, "receive", 2)],
        processes=[process(exe="/bin/x")],
        span_ms=99,
    )
    assert made.connections["id"].tolist() == ["c1", "c2"]
    assert made.connections["closing_ns"].tolist()[1] == 100e6
    assert made.connections["closed_by"].tolist() == [None, "local"]
    assert made.requests["sequence"].tolist() == [1, 2, 1]
    assert made.requests["reused"].tolist() == [False, True, False]
    assert made.bursts["bytes"].tolist() == [300, 100]
    assert made.processes["exe"].tolist() == ["/bin/x"]
    assert np.isnan(made.connections["idle_before_close_ms"]).all()
    assert made.span_ms == 99


def test_a_strange_column_is_a_mistake():
    with pytest.raises(ValueError, match="color"):
        tables(connections=[connection(color="red")])


def test_a_conversation_becomes_records():
    builder = RecordingBuilder(tier="uapi").connection(
        [("send", 1, 20), ("receive", 2, 30)], closed=("local", 9), dport=443
    )
    recording = builder.recording()
    event = records_of(recording, "tcp")[0]
    assert (event["bytes_sent"], event["bytes_received"], event["dport"], event["kind"]) == (20, 30, 443, 3)
    assert records_of(recording, "tcp_io")["direction"].tolist() == [1, 2]
    assert recording.header["tier"] == "uapi"


def test_layouts_are_those_of_the_header():
    assert layout("tcp").struct == "tcp_event"
    assert struct_layout("tcp_io_event").size == 80
    with pytest.raises(KeyError):
        struct_layout("no_event")
