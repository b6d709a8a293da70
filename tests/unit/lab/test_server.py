# SPDX-License-Identifier: Apache-2.0
"""The lab's server as a process."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import time

import pytest

from netdiag.lab.facts import Truth
from netdiag.lab.server import listen
from netdiag.lab.settings import ServerSettings


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a server and gives its port; all are ended with the test."""
    running = []

    def begin(table):
        config = tmp_path / "server.json"
        config.write_text(json.dumps(table))
        argv = [sys.executable, "-m", "netdiag.lab.server", str(config), str(tmp_path / "facts.jsonl")]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        word, port = process.stdout.readline().split()
        assert word == "ready"
        return int(port)

    yield begin
    for process in running:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def facts(tmp_path):
    time.sleep(0.1)  # the server writes a close when it sees it
    return Truth.read(tmp_path / "facts.jsonl")


def test_it_speaks_tls_and_tells_the_truth(start, tmp_path):
    port = start({"tls": {"max": "1.2"}})
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=5)
    connection.request("GET", "/v1/models")
    assert connection.getresponse().read()
    assert connection.sock.version() == "TLSv1.2"
    mine = connection.sock.getsockname()[1]
    connection.close()
    truth = facts(tmp_path)
    (entry,) = truth.connections
    assert entry.peer_port == mine
    assert entry.close is not None
    assert (entry.close.by, truth.handshakes, truth.requests) == ("client", 1, 1)


def test_a_reload_closes_all_idle_connections_and_spares_new_ones(start, tmp_path):
    port = start({"reload_at_s": [0.3]})
    old = [http.client.HTTPConnection("127.0.0.1", port, timeout=5) for _ in range(3)]
    for connection in old:
        connection.request("GET", "/")
        connection.getresponse().read()
    time.sleep(0.6)
    new = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    new.request("GET", "/")
    assert new.getresponse().read()
    for connection in [*old, new]:
        connection.close()
    whys = [entry.close.why for entry in facts(tmp_path).connections if entry.close]
    assert whys == ["reload", "reload", "reload", "end of file"]


def test_all_addresses_share_one_port():
    listeners = listen(ServerSettings(bind=("127.0.0.1", "127.0.0.2")))
    ports = {listener.getsockname()[1] for listener in listeners}
    for listener in listeners:
        listener.close()
    assert len(ports) == 1
