# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.route import local


def test_towards_loopback():
    assert local.source_towards("127.0.0.1") == "127.0.0.1"


def test_a_private_address_is_no_public_one(monkeypatch):
    monkeypatch.setattr(local, "source_towards", lambda _ip: "192.168.1.5")
    assert local.public_address((4, 6)) is None
    monkeypatch.setattr(local, "source_towards", lambda ip: "8.8.4.4" if ":" not in ip else None)
    assert local.public_address((6, 4)) == "8.8.4.4"
    monkeypatch.setattr(local, "source_towards", lambda _ip: None)
    assert local.public_address((4, 6)) is None
