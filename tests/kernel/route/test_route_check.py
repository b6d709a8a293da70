# SPDX-License-Identifier: Apache-2.0
"""`netdiag route-check` on emulated networks, beyond the verdict: flips, refusals, hostile names, words, replays."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
import tomllib

import pytest

from netdiag.route.lab.topology import shipped
from netdiag.route.lab.world import NOBODY, World

pytestmark = pytest.mark.kernel

EVIL = "evil\x1b[31mberlin.example"


def run(world, *words, uid=NOBODY):
    argv = [sys.executable, "-m", "netdiag", "route-check", *words, "--no-keep"]
    return subprocess.run(world.command(argv, uid=uid), capture_output=True, text=True, check=False, timeout=60)


def shown(world, *words, uid=NOBODY):
    done = run(world, *words, "--format", "json", uid=uid)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_flows_that_reach_another_place_are_seen():
    with World(shipped()["two-ways"]) as world:
        document = shown(world, "api.lab.test", "-4")
    (flip,) = [row for row in document["findings"] if row["code"] == "route.site-flip"]
    assert 30 < flip["cost_ms"] * flip["of"] / flip["count"] < 45
    assert {row["pop"] for row in document["addresses"][0]["groups"]} == {"FRA", "AMS"}


def test_offline_asks_the_target_alone():
    with World(shipped()["plain"]) as world:
        document = shown(world, "203.0.113.10", "--offline", "--rounds", "1")
    assert {row["address"] for row in document["asked"]} == {"203.0.113.10"}
    assert {row["purpose"] for row in document["asked"]} == {"trace", "connect"}
    assert document["addresses"][0]["pop"] is None


def test_the_same_over_ipv6_alone():
    with World(shipped()["plain"]) as world:
        document = shown(world, "api.lab.test", "-6", "--rounds", "1")
    assert [row["ip"] for row in document["addresses"]] == ["2001:db8:cb00:7100::10"]
    assert document["addresses"][0]["pop"] == "FRA"
    assert document["paths"][0]["reached"]


def test_names_with_escapes_reach_no_terminal():
    hops = [{"ip": "198.18.0.1", "ms": 1.0, "name": EVIL}, {"ip": "198.18.1.1", "ms": 5.0, "name": "x" * 60}]
    table = {"title": "hostile names", "sites": [{"ips": ["203.0.113.10"], "ways": [{"ms": 9.0, "hops": hops}]}]}
    with World(table) as world:
        for form in ("table", "markdown", "csv", "ndjson", "json"):
            done = run(world, "api.lab.test", "-4", "--rounds", "1", "-v", "--format", form)
            assert done.returncode == 0, done.stderr
            assert "\x1b" not in done.stdout + done.stderr
        document = shown(world, "api.lab.test", "-4", "--rounds", "1")
    (name,) = [one["name"] for one in document["paths"][0]["hops"][0]["responders"]]
    assert name.startswith("evil")
    assert document["paths"][0]["hops"][0]["responders"][0]["place"] is None


def test_a_refusal_on_the_way_is_no_loss():
    with World(shipped()["refused"]) as world:
        document = shown(world, "api.lab.test", "-4", "--rounds", "1")
    assert document["addresses"][0]["loss"]["sent"] == 0
    assert document["addresses"][0]["outcomes"] == {"unreachable": 12}
    assert document["detour"]["verdict"] == "unknown"


def test_as_root_one_flow_and_the_same_way():
    with World(shipped()["boomerang-berlin"]) as world:
        here = ("--vantage", "52.36,13.5", "--baseline-ms", "9", "--rounds", "1", "-4")
        both = [shown(world, "api.lab.test", *here, uid=uid) for uid in (NOBODY, 0)]
    assert [one["paths"][0]["flow"] for one in both] == ["multi", "single"]
    assert [one["detour"]["class"] for one in both] == ["boomerang", "boomerang"]
    ways = [[[r["ip"] for r in hop["responders"]] for hop in one["paths"][0]["hops"]] for one in both]
    assert ways[0] == ways[1]


def test_what_was_measured_can_be_judged_again(tmp_path):
    with World(shipped()["boomerang-berlin"]) as world:
        here = ("--vantage", "52.36,13.5", "--baseline-ms", "9", "--rounds", "1")
        done = run(world, "api.lab.test", *here, "--format", "json", uid=0)
    stored = tmp_path / "check.json"
    stored.write_text(done.stdout)
    argv = [sys.executable, "-m", "netdiag", "route-check", "--replay", str(stored), "--format", "json"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == done.stdout


def heard(world, *words, uid=NOBODY):
    """Return to whom packets left the client's namespace while a check ran, and its document; loopback included."""
    script = (
        "import socket, sys, threading\n"
        "sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))\n"
        "print('ready', flush=True)\n"
        "threading.Thread(target=lambda: (sys.stdin.read(), __import__('os')._exit(0)), daemon=True).start()\n"
        "while True:\n"
        "    data, (device, _, kind, *_) = sock.recvfrom(2048)\n"
        "    if kind == 4:\n"  # leaves here
        "        end = data[16:20] if data[0] >> 4 == 4 else data[24:40]\n"
        "        family = socket.AF_INET if len(end) == 4 else socket.AF_INET6\n"
        "        print(device, socket.inet_ntop(family, end), flush=True)\n"
    )
    listener = subprocess.Popen(
        world.command([sys.executable, "-c", script]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert listener.stdout is not None
    assert listener.stdout.readline() == "ready\n"
    document = shown(world, *words, uid=uid)
    time.sleep(0.2)
    text, _ = listener.communicate("")
    return {tuple(line.split()) for line in text.splitlines()}, document


@pytest.mark.parametrize("uid", [NOBODY, 0])
def test_offline_sends_to_the_target_alone_as_captured(uid):
    with World(shipped()["near"]) as world:
        sent, document = heard(world, "203.0.113.10", "--offline", "--rounds", "2", uid=uid)
    assert {ip for _, ip in sent} == {"203.0.113.10"}
    assert {row["address"] for row in document["asked"]} == {"203.0.113.10"}


@pytest.mark.parametrize("uid", [NOBODY, 0])
def test_all_who_got_a_packet_are_listed_as_captured(uid):
    with World(shipped()["steering-berlin"]) as world:
        sent, document = heard(world, "api.lab.test", "--rounds", "2", uid=uid)
    to = {ip for _, ip in sent}
    assert {"203.0.113.10", "127.0.0.53"} <= to
    own = {ip for ip in to if ip.startswith("ff02::")} | {"127.0.0.1"}  # the kernel's own; the server's answers
    assert to - own <= {row["address"] for row in document["asked"]}


@pytest.mark.parametrize("uid", [NOBODY, 0])
def test_hostile_replies_change_nothing_and_are_counted(uid):
    kinds = ["duplicate", "wrong-quote", "huge-extension", "truncated", "wrong-checksum"]
    table = tomllib.loads(shipped()["boomerang-berlin"].read_text())
    honest = copy.deepcopy(table)
    for hop in table["sites"][0]["ways"][0]["hops"]:
        hop["hostile"] = kinds
    found = []
    for network in (honest, table):
        with World(network) as world:
            words = ("--vantage", "52.36,13.5", "--baseline-ms", "9", "-4", "--rounds", "2")
            found.append(shown(world, "api.lab.test", *words, uid=uid))
    paths = [document["paths"][0] for document in found]
    ways = [[[one["ip"] for one in hop["responders"]] for hop in path["hops"]] for path in paths]
    assert ways[0] == ways[1]
    assert [one["detour"]["class"] for one in found] == ["boomerang"] * 2
    assert paths[0]["as_path"] == paths[1]["as_path"]
    assert not any(one["mpls"] for hop in paths[1]["hops"] for one in hop["responders"])
    ignored = [path["ignored"] for path in paths]
    assert not any(count for name, count in ignored[0].items() if name != "foreign")  # those are our own connections'
    if uid == 0:  # without rights the kernel itself keeps them away
        assert ignored[1]["duplicates"] > 0
        assert ignored[1]["malformed"] > 0
        assert ignored[1]["mismatched"] > 0


@pytest.mark.parametrize("ip", ["203.0.113.10", "2001:db8:cb00:7100::10"])
def test_inside_a_connection_of_its_own(ip):
    with World(shipped()["near"]) as world:
        document = shown(world, ip, "--inside", "--rounds", "1", "-n", uid=0)
        refused = run(world, ip, "--inside", "--rounds", "1")
    fresh, inside = document["paths"]
    assert (inside["method"], inside["flow"], inside["ended"]) == ("in-session", "single", "answered")
    ways = [[[one["ip"] for one in hop["responders"]] for hop in path["hops"]][:5] for path in (fresh, inside)]
    assert ways[0] == ways[1]
    assert {row["address"] for row in document["asked"]} == {ip}
    assert refused.returncode == 4
    assert "CAP_NET_RAW" in refused.stderr


@pytest.mark.parametrize("other", [["--offline"], ["--no-http"], ["--protocol", "udp"]])
def test_inside_needs_what_others_forbid(other):
    argv = [sys.executable, "-m", "netdiag", "route-check", "203.0.113.10", "--inside", *other, "--no-keep"]
    done = subprocess.run(["unshare", "--net", *argv], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2, "refused before anything is sent"
