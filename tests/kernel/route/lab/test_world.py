# SPDX-License-Identifier: Apache-2.0
"""Namespaces with a network between them: they work for any program, and nothing of them is left."""

from __future__ import annotations

import subprocess

import pytest

from netdiag.errors import InputUnreadable, Unsupported
from netdiag.route.lab.topology import shipped
from netdiag.route.lab.world import NOBODY, RESOLVER, World

pytestmark = pytest.mark.kernel


def namespaces():
    return subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout


def test_programs_find_names_and_servers_as_any_user_and_nothing_is_left():
    with World(shipped()["plain"]) as world:
        assert world.client in namespaces()
        names = world.run(["getent", "ahosts", "api.lab.test"], uid=NOBODY)
        assert "203.0.113.10" in names
        assert "2001:db8:cb00:7100::10" in names
        assert RESOLVER in world.run(["cat", "/etc/resolv.conf"])
        assert world.run(["id", "-u"], uid=NOBODY).strip() == str(NOBODY)
        assert "CapEff:\t0000000000000000" in world.run(["cat", "/proc/self/status"], uid=NOBODY)
        folder = world.folder
    assert world.client not in namespaces()
    assert world.server not in namespaces()
    assert not folder.exists()


def test_nothing_leads_out():
    with World(shipped()["plain"]) as world:
        links = world.run(["ip", "-o", "link"])
    assert {line.split(":")[1].strip().split("@")[0] for line in links.splitlines()} <= {
        "lo",
        "ndr0",
        "sit0",
        "tunl0",
        "ip6tnl0",
    }


def test_a_program_that_fails_tells_its_own_words():
    with World(shipped()["plain"]) as world, pytest.raises(Unsupported, match="No such file"):
        world.run(["cat", "/nonexistent/file"])


def test_a_table_may_be_given_instead_of_a_file():
    table = {
        "title": "one router",
        "sites": [{"ips": ["203.0.113.10"], "ways": [{"ms": 6.0, "hops": [{"ip": "198.18.0.1", "ms": 2.0}]}]}],
    }
    with World(table) as world:
        assert world.topology.title == "one router"


def test_a_network_that_cannot_be_built_leaves_nothing():
    before = namespaces()
    bad = {"title": "t", "sites": [{"ips": ["not an address"], "ways": [{"ms": 6.0, "hops": []}]}]}
    with pytest.raises(InputUnreadable), World(bad):
        pass
    assert namespaces() == before
