# SPDX-License-Identifier: Apache-2.0
"""The raw door to the engine: requests in, the model's JSON out."""

from __future__ import annotations

import io
import json
import socket
import sys

import pytest

from netdiag.errors import InputUnreadable
from netdiag.route.engine import __main__ as door
from netdiag.route.model import Connect, Ended, Trace
from netdiag.route.store import restore


def test_traces_and_connects_come_in_order(monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        common = {"ip": "127.0.0.1", "port": port}
        requests = [{**common, "privileged": False, "max_ttl": 2}, {**common, "connect": True, "attempts": 2}]
        monkeypatch.setattr(sys, "argv", ["engine", "-"])
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(requests)))
        door.main()
    shown = json.loads(capsys.readouterr().out)
    assert restore(Trace, shown["results"][0]).ended is Ended.ANSWERED
    assert len(restore(Connect, shown["results"][1]).attempts) == 2
    assert shown["rss_mb"] > 1


def test_a_wrong_request_is_refused():
    with pytest.raises(InputUnreadable, match="ip is missing"):
        door.answer([{}])
