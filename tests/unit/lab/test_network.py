# SPDX-License-Identifier: Apache-2.0
"""Where a run takes place."""

from __future__ import annotations

import os

import pytest

from netdiag.errors import NotPermitted, Unsupported
from netdiag.lab import network


def test_without_settings_a_run_stays_on_the_machines_loopback():
    with network.of({}) as net:
        assert net.address == "127.0.0.1"
        assert net.for_client(["a"]) == net.for_server(["a"]) == ["a"]


def test_a_private_network_wraps_commands_in_its_namespaces():
    near, far = network.PrivateNetwork({"rules": []}), network.PrivateNetwork({"rtt_ms": 40})
    assert near.for_client(["a"]) == near.for_server(["a"])
    assert far.for_client(["a"]) != far.for_server(["a"])
    assert far.for_client(["a"])[0] == "nsenter"
    assert all(name.startswith("ndlab-") for name in (near.client, far.client, far.server))


def test_rights_are_asked_for_before_anything_is_made(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotPermitted):
        network.check_rights()


def test_a_failing_set_up_command_speaks():
    with pytest.raises(Unsupported, match="no such thing"):
        network.command(["sh", "-c", "echo no such thing >&2; exit 1"])
