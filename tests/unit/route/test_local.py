# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

import pytest

from netdiag.route import local
from netdiag.route.surroundings import TUNNELS


def test_towards_loopback():
    assert local.source_towards("127.0.0.1") == "127.0.0.1"


def test_a_private_address_is_no_public_one(monkeypatch):
    monkeypatch.setattr(local, "source_towards", lambda _ip: "192.168.1.5")
    assert local.public_address((4, 6)) is None
    monkeypatch.setattr(local, "source_towards", lambda ip: "8.8.4.4" if ":" not in ip else None)
    assert local.public_address((6, 4)) == "8.8.4.4"
    monkeypatch.setattr(local, "source_towards", lambda _ip: None)
    assert local.public_address((4, 6)) is None


def test_the_device_towards_loopback_is_loopback_and_has_no_driver():
    assert local.device_towards("127.0.0.1") == ("lo", None)
    assert local.device_towards("::1") in (("lo", None), None)
    assert local.driver_of("no-such-device") is None


@pytest.mark.parametrize("data", [b"", b"x" * 15, bytes(28), bytes(40), b"\xff" * 64])
def test_any_answer_of_the_kernel_is_a_number_or_none(data):
    assert local._outgoing(data) is None


@pytest.mark.kernel
def test_devices_of_tunnels_have_the_names_that_we_know():
    """In a namespace of its own; the kernel's own words are what is compared."""
    kinds = {"tun": "ip tuntap add dev t0 mode tun"}
    for kind in ("gre", "ipip", "sit"):
        kinds[kind] = f"ip link add t0 type {kind} local 198.18.0.1 remote 198.18.0.2"
    kinds["wireguard"] = "ip link add t0 type wireguard"
    seen = {}
    for kind, make in kinds.items():
        code = "from netdiag.route.local import device_towards; print(device_towards('203.0.113.10'))"
        script = f"{make} && ip addr add 198.18.9.1/24 dev t0 && ip link set t0 up && ip route add default dev t0"
        argv = ["unshare", "--net", "sh", "-c", f'{script} && exec "$@"', "sh", sys.executable, "-c", code]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            seen[kind] = done.stdout.strip()
    assert "tun" in seen
    assert seen == {kind: f"('t0', '{kind}')" for kind in seen}
    assert set(seen) <= set(TUNNELS)
