# SPDX-License-Identifier: Apache-2.0
"""Handshakes and requests of real programs from records alone, compared with what nginx and s_server say of them.

NETDIAG_FULL=1 runs every client; without, one of each kind.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.kernel.tls_servers import Authority, nginx, s_server, upstream

pytestmark = pytest.mark.kernel

CLIENTS = Path(__file__).resolve().parents[1] / "clients"
NETDIAG = [sys.executable, "-m", "netdiag", "trace", "--as-root", "--no-keep", "--format", "json"]
RECORDS = "tcp,tls,process"
COUNT = 3
HANDSHAKES = 250
WARM_UP = 20
"""The first ones run code that was not run before, some of it being compiled between packet and clock."""
QUIET = os.environ.get("NETDIAG_QUIET") == "1"
"""Nothing else runs on this machine; otherwise others may, between a packet and a program's look at its clock."""
SERVERS = {
    "13": "ssl_protocols TLSv1.3;",
    "13-stateful": "ssl_protocols TLSv1.3; ssl_session_tickets off; ssl_session_cache shared:a:1m;",
    "13-useless": "ssl_protocols TLSv1.3; ssl_session_tickets off;",
    "12": "ssl_protocols TLSv1.2;",
    "12-stateful": "ssl_protocols TLSv1.2; ssl_session_tickets off; ssl_session_cache shared:b:1m;",
    "12-never": "ssl_protocols TLSv1.2; ssl_session_tickets off;",
    "h2": "",
}
PYTHON = (
    "requests", "requests-bare", "urllib3", "httpx", "httpx-async", "httpx-h2", "aiohttp", "openai", "openai-stream",
    "openai-async", "rustls",
)  # fmt: skip
NODE = ("node-agent", "node-single", "node-fetch")
GO = ("go-plain", "go-cache", "go-http2")
ALL = (*PYTHON, *NODE, *GO, "curl", "java")
FULL = os.environ.get("NETDIAG_FULL") == "1"
USUAL = (
    "requests", "httpx-async", "httpx-h2", "aiohttp", "openai-stream", "rustls", "node-agent", "node-fetch", "go-cache",
    "curl",
)  # fmt: skip
HTTP2 = ("httpx-h2", "go-http2", "curl")
"""Clients that agree on HTTP/2 where it is to be had."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Return what signs all certificates here."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def keys(authority):
    """Return keys of several kinds for the servers."""
    return {
        "*": authority.issue("ec"),
        "12": authority.issue("rsa", "-newkey", "rsa:2048"),
        "13-stateful": authority.issue("p384", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"),
        "h2": authority.issue("rsa3072", "-newkey", "rsa:3072"),
    }


@pytest.fixture(scope="module")
def go_client(tmp_path_factory):
    """Return the program in Go."""
    return built_in_go(tmp_path_factory.mktemp("go"))


def built_in_go(folder):
    if shutil.which("go") is None:
        pytest.skip("needs go")
    env = {**os.environ, "GOPROXY": "off", "GOCACHE": str(Path.home() / ".cache" / "go-build")}
    command = ["go", "build", "-o", str(folder / "client"), str(CLIENTS / "gets.go")]
    subprocess.run(command, check=True, capture_output=True, env=env)
    return str(folder / "client")


def needed(program):
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    return program


def client(name, ca, urls, request, count=COUNT):
    """Return the command that asks each URL so often."""
    family, _, mode = name.partition("-")
    rest = [str(ca), str(count), *urls]
    if family == "go":
        return [request.getfixturevalue("go_client"), mode, *rest]
    if family == "node":
        extra = ["env", f"NODE_EXTRA_CA_CERTS={ca}"]
        return [*extra, needed("node"), str(CLIENTS / "gets.mjs"), mode, *rest]
    if family == "java":
        return [needed("java"), str(CLIENTS / "Gets.java"), *rest]
    if family == "curl":
        repeated = [url for url in urls for _ in range(count)]
        return [needed("curl"), "-sS", "--cacert", str(ca), *repeated]
    return [request.getfixturevalue("lab_python"), str(CLIENTS / "gets.py"), name, *rest]


def traced(folder, argv, *, probes=RECORDS):
    """Run a command under netdiag; return the document and what the command printed."""
    out = folder / "trace.json"
    done = subprocess.run(
        [*NETDIAG, "--probe", probes, "-o", str(out), "--", *argv],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    document = json.loads(out.read_text())
    assert [entry for entry in document["coverage"]["events"] if entry["lost"]] == []
    return document, done.stdout


class Seen:
    """What netdiag says of the connections to some ports."""

    def __init__(self, document, ports):
        ours = [entry for entry in document["connections"] if entry["remote"]["port"] in ports and entry["handshake"]]
        self.place = {entry["id"]: (entry["remote"]["port"], entry["local"]["port"]) for entry in ours}
        self.handshakes = [entry for entry in document["handshakes"] if entry["connection"] in self.place]
        self.requests = [entry for entry in document["requests"] if entry["connection"] in self.place]
        self.by_place = {self.place[entry["connection"]]: entry for entry in self.handshakes}
        self.connections = ours


@pytest.mark.parametrize("name", ALL if FULL else USUAL)
def test_every_client_against_every_server(name, authority, keys, request, tmp_path):
    with upstream() as api, nginx(tmp_path / "nginx", SERVERS, keys, answer=api.directive) as server:
        urls = [server.url(each, path) for each in SERVERS for path in ("/close", "/keep")]
        document, _ = traced(tmp_path, client(name, authority.cert, urls, request))
        logged = server.logged(COUNT * len(urls))
    assert len(logged) == COUNT * len(urls)
    seen = Seen(document, set(server.ports.values()))
    assert_handshakes(seen, logged)
    plain = [entry for entry in logged if entry.protocol != "HTTP/2.0"]
    assert (len(plain) < len(logged)) == (name in HTTP2)
    assert_requests(seen, plain)
    assert_waits(seen, logged, api.took_ms)
    if name in HTTP2:  # nothing is claimed
        h2 = {entry.port for entry in logged if entry.protocol == "HTTP/2.0"}
        assert {entry["requests"] for entry in seen.connections if entry["local"]["port"] in h2} == {None}


def assert_handshakes(seen, logged):
    """Each connection that nginx had a request on has a handshake with the same facts."""
    told = {(entry.server, entry.port): entry for entry in logged}
    mine = {place: seen.by_place.get(place) for place in told}
    assert [place for place, entry in mine.items() if entry is None] == []
    assert {entry["outcome"] for entry in mine.values()} == {"completed"}
    facts = {place: (entry["version"], entry["resumed"], entry["sni"]) for place, entry in mine.items()}
    assert facts == {place: (entry.version, entry.resumed, entry.sni) for place, entry in told.items()}
    new = [place for place, entry in told.items() if entry.version == "TLSv1.3"]
    assert [mine[place]["cipher"] for place in new] == [told[place].cipher for place in new]
    groups = {"X25519": "X25519", "prime256v1": "P-256", "secp384r1": "P-384"}
    assert [mine[place]["group"] for place in new] == [groups[told[place].group] for place in new]
    assert all(entry["duration_ms"] > 0 for entry in mine.values())


def assert_requests(seen, logged):
    """As many requests on each connection, from records."""
    told = Counter((entry.server, entry.port) for entry in logged)
    mine = dict.fromkeys(told, 0)
    for entry in seen.requests:
        place = seen.place[entry["connection"]]
        if place in mine:
            mine[place] += 1
            assert (entry["source"], entry["sequence"]) == ("records", mine[place])
    assert mine == dict(told)
    counted = {seen.place[entry["id"]]: entry["requests"] for entry in seen.connections}
    assert {place: counted[place] for place in told} == dict(told)


def assert_waits(seen, logged, worked):
    """No wait is shorter than what the API behind nginx took by its own clock, and what nginx adds is little."""
    told = {(entry.server, entry.port, entry.number): took for entry, took in zip(logged, worked, strict=True)}
    mine = {(*seen.place[entry["connection"]], entry["sequence"]): entry["wait_ms"] for entry in seen.requests}
    more = {key: mine[key] - told[key] for key in told if key in mine}
    assert {key: ms for key, ms in more.items() if ms < 0} == {}
    ordered = sorted(more.values())
    assert at(ordered, 0.1) < 3.0
    assert at(ordered, 0.5) < (2.0 if QUIET else 15.0)


def test_a_stripped_program_with_rustls(authority, keys, lab_python, tmp_path):
    """uv is written in Rust and has no symbols; it asks each index for each package, several at a time."""
    uv = Path(lab_python).with_name("uv")
    if not uv.exists():
        pytest.skip("needs uv among the client libraries: run scripts/setup --lab")
    chosen = {name: SERVERS[name] for name in ("13", "12", "12-stateful")}
    with upstream() as api, nginx(tmp_path / "nginx", chosen, keys, answer=api.directive) as server:
        ask = [str(uv), "pip", "compile", "-", "--no-cache", "--no-config", "--quiet"]
        loops = [
            f"printf 'alpha\\nbeta\\ngamma\\n' | {shlex.join([*ask, '--index-url', server.url(name, path)])} || true"
            for name in chosen
            for path in ("/keep", "/close")
        ]
        env = ["env", f"SSL_CERT_FILE={authority.cert}", "UV_HTTP_RETRIES=0", f"HOME={tmp_path}"]
        document, _ = traced(tmp_path, [*env, "sh", "-c", f"({'; '.join(loops)}) 2>/dev/null"])
        logged = server.logged(18)
    assert len(logged) >= 18
    seen = Seen(document, set(server.ports.values()))
    assert_handshakes(seen, logged)
    assert_requests(seen, logged)
    waits = [entry["wait_ms"] for entry in seen.requests if entry["wait_ms"] is not None]  # some it gives up itself
    assert len(waits) >= 9
    assert min(waits) >= min(api.took_ms)


@pytest.mark.parametrize(
    "name", [each for each in ALL if "openai" not in each] if FULL else ["requests", "rustls", "node-agent"]
)
def test_what_s_server_says_of_each_handshake(name, authority, keys, request, tmp_path):
    with s_server(*keys["*"], "-www") as new, s_server(*keys["12"], "-www", "-tls1_2") as old:
        ports = [old] if name == "java" else [new, old]  # Java waits for s_server to close TLS 1.3 first
        urls = [f"https://localhost:{port}/" for port in ports]
        document, printed = traced(tmp_path, client(name, authority.cert, urls, request))
    told = re.findall(r"^(New|Reused), \S+ Cipher is \S+$.*?^ *Protocol *: (\S+)$", printed, re.MULTILINE | re.DOTALL)
    seen = Seen(document, set(ports))
    done = [entry for entry in seen.handshakes if entry["outcome"] == "completed"]
    asked = {entry["connection"] for entry in seen.requests}
    mine = [
        ("Reused" if entry["resumed"] else "New", entry["version"]) for entry in done if entry["connection"] in asked
    ]
    assert len(told) == COUNT * len(urls)
    assert mine == told


@pytest.mark.parametrize("name", ["timed-sync", "timed-asyncio", "node-timed"])
def test_handshake_times_are_those_of_the_program_s_own_clock(name, authority, keys, request, tmp_path):
    """The wire is inside what the program times, but for its own way to the first and from the last byte."""
    with nginx(tmp_path / "nginx", {"13": SERVERS["13"]}, keys) as server:
        os.sched_setscheduler(
            server.pid, os.SCHED_FIFO, os.sched_param(20)
        )  # others on this machine shall take few turns in between
        argv = client(name, authority.cert, [server.url("13")], request, HANDSHAKES)
        document, printed = traced(tmp_path, ["chrt", "-f", "20", *argv])
    own = {int(port): (int(ended) - int(began)) / 1e6 for port, began, ended in map(str.split, printed.splitlines())}
    seen = Seen(document, set(server.ports.values()))
    mine = {port: entry["duration_ms"] for (_, port), entry in seen.by_place.items()}
    assert len(own) == HANDSHAKES
    assert mine.keys() == own.keys()
    # either way: a program may be told that it is done before its Finished is handed to the socket
    more = sorted(abs(own[port] - mine[port]) for port in list(own)[WARM_UP:])
    figures = f"own clock - wire, ms: p50 {at(more, 0.5):.3f}, p90 {at(more, 0.9):.3f}, p99 {at(more, 0.99):.3f}"
    assert at(more, 0.5) < 0.8, figures
    assert at(more, 0.9) < (0.9 if QUIET else 3.0), figures
    assert at(more, 0.99) < (1.0 if QUIET else 10.0), figures


def at(values, share):
    """Return the value below which that share of sorted values lies."""
    return values[min(int(len(values) * share), len(values) - 1)]
