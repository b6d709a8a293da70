# SPDX-License-Identifier: Apache-2.0
"""Look-ups of real programs - glibc, musl, Go, node by both ways, Java - against what a name server was asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from netdiag.lab.asked import compare_questions
from netdiag.lab.network import PrivateNetwork
from tests.kernel.resolved import STUB, running

pytestmark = pytest.mark.kernel

CLIENTS = Path(__file__).resolve().parents[1] / "clients"
NETDIAG = [sys.executable, "-m", "netdiag", "trace", "--as-root", "--format", "json", "-o"]
NAMES = ["api.lab.test", "only4.lab.test", "svc", "nosuch.lab.test"]
SETTINGS = {
    "hosts": {
        "api.lab.test": ["127.0.0.1", "::1"],
        "only4.lab.test": ["127.0.0.2"],
        "svc.corp.test": ["127.0.0.3"],
    },
    "search": ["corp.test"],
    "options": "ndots:1",
    "wait_s": 0.01,
}
FOUND = {"api.lab.test": {"127.0.0.1", "::1"}, "only4.lab.test": {"127.0.0.2"}, "svc": {"127.0.0.3"}}


def built(tmp_path, *command):
    """Compile a client with a compiler that is there, else skip; return the program's path."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    program = tmp_path / "client"
    env = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "GOPROXY": "off", "CGO_ENABLED": "0"}
    subprocess.run([each.replace("OUT", str(program)) for each in command], check=True, env=env, capture_output=True)
    return [str(program)]


def client(kind, tmp_path):
    """Return the command of a client that looks up the names behind it."""
    if kind == "python":
        code = (
            "import socket, sys\nfor n in sys.argv[1:]:\n try: socket.getaddrinfo(n, 80, type=1)\n except OSError: pass"
        )
        return [sys.executable, "-c", code]
    if kind in ("lookup", "resolve"):
        if not shutil.which("node"):
            pytest.skip("needs node")
        return ["node", str(CLIENTS / "names.mjs"), kind]
    if kind == "java":
        if not shutil.which("java"):
            pytest.skip("needs java")
        return ["java", str(CLIENTS / "Names.java")]
    compilers = {
        "glibc": ("gcc", "-o", "OUT", str(CLIENTS / "names.c")),
        "musl": ("musl-gcc", "-o", "OUT", str(CLIENTS / "names.c")),
        "musl static": ("musl-gcc", "-static", "-o", "OUT", str(CLIENTS / "names.c")),
        "go": ("go", "build", "-o", "OUT", str(CLIENTS / "names.go")),
    }
    return built(tmp_path, *compilers[kind])


def traced(command, tmp_path, **settings):
    """Trace a command in a namespace with a name server of its own; return the document and the server's facts."""
    with PrivateNetwork({"names": SETTINGS | settings}) as network:
        assert network.questions is not None
        argv = [*NETDIAG, str(tmp_path / "trace.json"), "--", *network.for_client(command)]
        subprocess.run(argv, check=True, capture_output=True, timeout=120)
        document = json.loads((tmp_path / "trace.json").read_text())
        assert compare_questions(document, network.questions) == []
        facts = [json.loads(line) for line in network.questions.read_text().splitlines()]
    return document, facts


@pytest.mark.parametrize("kind", ["python", "glibc", "musl", "musl static", "lookup", "java"])
def test_calls_of_the_c_library(kind, tmp_path):
    document, facts = traced([*client(kind, tmp_path), *NAMES], tmp_path)
    calls = [entry for entry in document["resolutions"] if entry["source"] == "libc" and entry["name"] in NAMES]
    assert {entry["name"] for entry in calls} == set(NAMES)
    whole = [entry for entry in calls if entry["qtype"] == "A+AAAA"]
    for entry in whole:
        assert set(entry["answers"]) == FOUND.get(entry["name"], set())
        assert (entry["error"] == "NXDOMAIN") == (entry["name"] not in FOUND)
        assert entry["duration_ms"] >= 9
    assert len(facts) >= 2 * len(NAMES) - 2


@pytest.mark.parametrize("kind", ["go", "resolve"])
def test_programs_that_ask_without_it(kind, tmp_path):
    document, facts = traced([*client(kind, tmp_path), *NAMES[:2], NAMES[3]], tmp_path)
    assert {entry["source"] for entry in document["resolutions"]} == {"wire"}
    told = Counter((entry["name"], entry["qtype"]) for entry in document["resolutions"])
    assert told == Counter((fact["name"], fact["qtype"]) for fact in facts)
    answers = {entry["name"]: set(entry["answers"]) for entry in document["resolutions"] if entry["qtype"] == "A"}
    assert answers["only4.lab.test"] == {"127.0.0.2"}
    assert {entry["error"] for entry in document["resolutions"] if entry["name"] == NAMES[3]} == {"NXDOMAIN"}


@pytest.mark.parametrize("kind", ["python", "go"])
def test_answers_that_go_on_over_tcp(kind, tmp_path):
    document, facts = traced([*client(kind, tmp_path), "api.lab.test"], tmp_path, truncate=True)
    assert {fact["transport"] for fact in facts} == {"udp", "tcp"}
    wire = [entry for entry in document["resolutions"] if entry["source"] == "wire"]
    assert {(entry["transport"], entry["truncated"]) for entry in wire} == {("tcp", True)}
    assert {answer for entry in wire for answer in entry["answers"]} == FOUND["api.lab.test"]


def test_a_lost_question_is_two_attempts(tmp_path):
    command = [*client("python", tmp_path), "api.lab.test"]
    document, facts = traced(command, tmp_path, lose=1, options="timeout:1 ndots:1")
    wire = [entry for entry in document["resolutions"] if entry["source"] == "wire"]
    assert len(facts) == 4
    assert [(entry["attempts"], entry["error"]) for entry in wire] == [(2, None), (2, None)]
    assert all(950 <= entry["duration_ms"] <= 1600 for entry in wire)


def test_silence_is_a_failure(tmp_path):
    command = [*client("python", tmp_path), "api.lab.test"]
    document, _ = traced(command, tmp_path, lose_all=True, options="timeout:1 attempts:2 ndots:1")
    wire = [entry for entry in document["resolutions"] if entry["source"] == "wire"]
    assert {(entry["attempts"], entry["error"]) for entry in wire} == {(2, "timeout")}
    assert "dns.failed" in [finding["code"] for finding in document["findings"]]


def test_both_families_of_name_servers(tmp_path):
    document, _ = traced([*client("glibc", tmp_path), "api.lab.test"], tmp_path, bind=["::1"])
    servers = {entry["server"] for entry in document["resolutions"] if entry["source"] == "wire"}
    assert servers == {"::1"}


def test_a_stub_on_another_loopback_address(tmp_path):
    document, _ = traced([*client("glibc", tmp_path), "api.lab.test"], tmp_path, bind=["127.0.0.53"])
    assert {entry["server"] for entry in document["resolutions"] if entry["source"] == "wire"} == {"127.0.0.53"}


def test_the_stub_of_systemd_resolved(tmp_path: Path) -> None:
    names = ["api.lab.test", "only4.lab.test", "nosuch.lab.test"]
    with PrivateNetwork({"names": SETTINGS | {"wait_s": 0.03, "search": []}}) as network, running(network, tmp_path):
        argv = [*NETDIAG, str(tmp_path / "trace.json"), "--"]
        command = network.for_client([*client("python", tmp_path), *names])
        subprocess.run([*argv, *command], check=True, capture_output=True, timeout=120)
    rows = json.loads((tmp_path / "trace.json").read_text())["resolutions"]
    calls = {row["name"]: row for row in rows if row["source"] == "libc"}
    assert list(calls) == names
    for name, row in calls.items():
        assert set(row["answers"]) == FOUND.get(name, set())
        assert row["error"] == (None if name in FOUND else "NXDOMAIN")
        assert row["duration_ms"] >= 29
    wire = [row for row in rows if row["source"] == "wire"]
    assert {row["server"] for row in wire} == {STUB}
    assert Counter(row["name"] for row in wire) == dict.fromkeys(names, 2)


def test_a_look_up_that_was_jumped_out_of_leaves_the_next_one_its_own_name(tmp_path):
    program = built(tmp_path, "gcc", "-O0", "-o", "OUT", str(CLIENTS / "jumps.c"))
    with PrivateNetwork({"names": SETTINGS | {"wait_s": 1.0}}) as network:
        argv = [
            *NETDIAG,
            str(tmp_path / "trace.json"),
            "--",
            *network.for_client([*program, "api.lab.test", "only4.lab.test"]),
        ]
        subprocess.run(argv, check=True, capture_output=True, timeout=120)
    found = [row for row in json.loads((tmp_path / "trace.json").read_text())["resolutions"] if row["source"] == "libc"]
    assert [row["name"] for row in found] == ["only4.lab.test"]
    assert found[0]["duration_ms"] >= 950


def test_what_is_no_dns_is_not_copied(tmp_path):
    code = (
        "import socket\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.connect(('127.0.0.1', 53)); s.send(b'token=SECRET-IN-A-DATAGRAM' * 4)\n"
        "t = socket.create_connection(('127.0.0.1', 53))\n"
        "t.sendall(b'GET /?key=SECRET-IN-A-STREAM HTTP/1.1\\r\\n\\r\\n')\n"
    )
    with PrivateNetwork({"names": SETTINGS}) as network:
        kept = tmp_path / "kept.netdiag"
        argv = [*NETDIAG, str(tmp_path / "trace.json"), "--save", str(kept), "--"]
        done = subprocess.run(
            [*argv, *network.for_client([sys.executable, "-c", code])], check=False, capture_output=True, timeout=60
        )
    assert done.returncode == 0
    assert b"SECRET-IN" not in kept.read_bytes()
    assert "SECRET-IN" not in (tmp_path / "trace.json").read_text()


def test_a_bystander_is_not_seen(tmp_path):
    with PrivateNetwork({"names": SETTINGS}) as network:
        ask = network.for_client([*client("python", tmp_path), "only4.lab.test"])
        argv = [*NETDIAG, str(tmp_path / "trace.json"), "--", *network.for_client(["sleep", "3"])]
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as tracing:
            for _ in range(12):
                subprocess.run(ask, check=True, timeout=30)
            assert tracing.wait(60) == 0
    assert json.loads((tmp_path / "trace.json").read_text())["resolutions"] == []
