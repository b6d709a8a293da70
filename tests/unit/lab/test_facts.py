# SPDX-License-Identifier: Apache-2.0
"""The server's word on what happened."""

from __future__ import annotations

import io

from netdiag.lab.facts import FactLog, TrueClose, Truth


def write(tmp_path, *facts, tail=""):
    text = io.StringIO()
    log = FactLog(text)
    for event, members in facts:
        log.write(event, **members)
    path = tmp_path / "facts.jsonl"
    path.write_text(text.getvalue() + tail)
    return path


def test_facts_become_connections(tmp_path):
    path = write(
        tmp_path,
        ("accept", {"conn": 1, "peer_port": 4001}),
        ("accept", {"conn": 2, "peer_port": 4002}),
        ("handshake", {"conn": 1}),
        ("request", {"conn": 1, "n": 1}),
        ("request", {"conn": 1, "n": 2}),
        ("close", {"conn": 1, "by": "server", "why": "idle"}),
    )
    truth = Truth.read(path)
    first, second = truth.connections
    assert (first.peer_port, len(first.requests), second.close) == (4001, 2, None)
    assert isinstance(first.close, TrueClose)
    assert (first.close.by, first.close.why) == ("server", "idle")
    assert first.close.at > first.accepted
    assert (truth.handshakes, truth.requests) == (1, 2)
    assert (first.handshake is not None, second.handshake) == (True, None)


def test_the_first_word_on_an_end_counts(tmp_path):
    path = write(
        tmp_path,
        ("accept", {"conn": 1, "peer_port": 4001}),
        ("close", {"conn": 1, "by": "server", "why": "last answer"}),
        ("close", {"conn": 1, "by": "client", "why": "ConnectionResetError"}),
    )
    close = Truth.read(path).connections[0].close
    assert close is not None
    assert close.by == "server"


def test_an_unfinished_line_is_skipped(tmp_path):
    path = write(tmp_path, ("accept", {"conn": 1, "peer_port": 4001}), tail='{"event": "acc')
    assert len(Truth.read(path).connections) == 1
