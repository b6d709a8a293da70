# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from netdiag.testing import RecordingBuilder
from tests.fakes.commands import builder, call, recording_file


def test_every_block_and_record_is_there(capsys, tmp_path):
    called = call(capsys, "dump", recording_file(tmp_path, calls=3), "--format", "ndjson")
    blocks = [json.loads(line) for line in called.out.splitlines()]
    kinds = [block["block"] for block in blocks]
    assert kinds[0] == "header"
    assert kinds[-1] == "end"
    assert kinds.count("tcp") == 3
    assert kinds.count("tcp_io") == 6
    assert kinds.count("fact") == 2
    record = next(block for block in blocks if block["block"] == "tcp")
    assert record["dport"] == 8080
    assert record["comm"] == "python3"
    assert record["daddr"].endswith("7f000001")


def test_one_stream_and_a_limit(capsys, tmp_path):
    called = call(capsys, "dump", recording_file(tmp_path), "--stream", "tcp", "--limit", 2)
    lines = [line.split()[0] for line in called.out.splitlines()]
    assert lines.count("tcp") == 2
    assert "tcp_io" not in lines


def test_an_unknown_stream(capsys, tmp_path):
    called = call(capsys, "dump", recording_file(tmp_path), "--stream", "udp")
    assert called.status == 2
    assert "tcp_io" in called.err


def test_where_it_breaks_off_is_printed(capsys, tmp_path):
    path = tmp_path / "cut.netdiag"
    path.write_bytes(builder().to_bytes()[:-10])
    last = call(capsys, "dump", path).out.splitlines()[-1]
    assert last.startswith("truncated at=")


@pytest.mark.parametrize("name", ["table", "ndjson"])
def test_hostile_names_reach_no_terminal(capsys, tmp_path, name):
    path = tmp_path / "x.netdiag"
    path.write_bytes(RecordingBuilder().connection([], closed=("local", 5), comm="\x1b[31mx").to_bytes())
    called = call(capsys, "dump", path, "--format", name)
    assert called.status == 0
    assert "\x1b" not in called.out
