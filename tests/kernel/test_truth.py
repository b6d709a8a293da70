# SPDX-License-Identifier: Apache-2.0
"""Every connection of real programs, compared with what the programs, nginx and `ss` say about it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from netdiag.lab.network import PrivateNetwork
from netdiag.lab.proxy import free_port, wait_for

pytestmark = pytest.mark.kernel

CLIENTS = Path(__file__).resolve().parents[1] / "clients"
NETDIAG = [sys.executable, "-m", "netdiag", "trace", "--as-root", "--format", "json", "-o"]
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  log_format facts '$remote_port $request_length $bytes_sent';
  access_log {folder}/access.log facts;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location /keep {{ return 200 "$args END\\n"; }}
    location /close {{ keepalive_timeout 0; return 200 "$args END\\n"; }}
  }}
}}
"""


@pytest.fixture
def nginx(tmp_path):
    """Run nginx; return its port and the path of its log."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("needs nginx")
    port = free_port()
    config = tmp_path / "nginx.conf"
    config.write_text(NGINX.format(folder=tmp_path, port=port))
    with subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL) as process:
        wait_for(port)
        yield port, tmp_path / "access.log"
        process.terminate()


def built(tmp_path, *command):
    """Compile a client with a toolchain that is there, else skip."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    env = {"HOME": str(Path.home()), "PATH": "/usr/local/bin:/usr/bin:/bin:" + str(Path.home() / ".cargo" / "bin")}
    env |= {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOCACHE": str(tmp_path / "go-cache")}
    subprocess.run(command, check=True, capture_output=True, env=env)
    return [str(tmp_path / "client")]


def client(name, tmp_path):
    out = str(tmp_path / "client")
    match name:
        case "go":
            return built(tmp_path, "go", "build", "-o", out, str(CLIENTS / "shorts.go"))
        case "rust":
            return built(tmp_path, "rustc", "-O", "-o", out, str(CLIENTS / "shorts.rs"))
        case "node":
            if shutil.which("node") is None:
                pytest.skip("needs node")
            return ["node", str(CLIENTS / "shorts.mjs")]
        case "curl":
            return [sys.executable, str(CLIENTS / "shorts_curl.py")]
    return [sys.executable, str(CLIENTS / "shorts.py")]


def traced(tmp_path, argv):
    """Run a command under netdiag; return the document and what the command printed."""
    out = tmp_path / "trace.json"
    done = subprocess.run([*NETDIAG, str(out), "--", *argv], capture_output=True, text=True, timeout=120, check=False)
    assert out.exists(), done.stderr[-500:]
    document = json.loads(out.read_text())
    assert [entry for entry in document["coverage"]["events"] if entry["lost"]] == []
    return document, done.stdout.split("\n")[:-1]


def differences(mine, told):
    """Return the first connections that differ, as (what netdiag says, what the program says)."""
    return [(mine.get(port), facts) for port, facts in told.items() if mine.get(port) != facts][:3]


@pytest.mark.parametrize(
    ("name", "count"), [("python", 1000), ("node", 1000), ("go", 1000), ("rust", 1000), ("curl", 300)]
)
def test_short_connections_are_all_there_and_right(name, count, nginx, tmp_path):
    port, log = nginx
    document, lines = traced(tmp_path, [*client(name, tmp_path), str(port), str(count)])
    told = {}
    for line in lines:
        pid, local, sent, received, closer, how = line.split()
        told[int(local)] = (int(pid), int(sent), int(received), closer, how, "established")
    assert len(lines) == count
    connections = [entry for entry in document["connections"] if entry["remote"]["port"] == port]
    mine = {
        entry["local"]["port"]: (
            entry["pid"],
            entry["bytes_sent"],
            entry["bytes_received"],
            entry["closed_by"],
            entry["close"],
            entry["outcome"],
        )
        for entry in connections
        if entry["role"] == "client"
    }
    assert len(connections) == count
    # A port that was used twice leaves one entry on each side; the last one counts on both.
    assert differences(mine, told) == []
    logged = [tuple(int(word) for word in line.split()) for line in log.read_text().splitlines()]
    sizes = Counter((entry["local"]["port"], entry["bytes_sent"], entry["bytes_received"]) for entry in connections)
    assert Counter(logged) == sizes
    assert {(entry["local"]["ip"], entry["remote"]["ip"]) for entry in connections} == {("127.0.0.1", "127.0.0.1")}


def test_open_connections_equal_what_ss_says(nginx, tmp_path):
    """Connections that live on are reported with the bytes and the owner that `ss` shows for them."""
    port, _ = nginx
    plan = tmp_path / "plan.json"
    url = f"http://127.0.0.1:{port}/keep?hello"
    numbers = {"calls": 7, "gap_s": 0.01, "pause_s": 1.5}
    plan.write_text(json.dumps({"library": "stdlib", "habit": "hold", "urls": [url], **numbers}))
    program = [sys.executable, str(Path(__file__).resolve().parents[2] / "netdiag" / "lab" / "clients"), str(plan)]
    out = tmp_path / "trace.json"
    with subprocess.Popen(
        [*NETDIAG, str(out), "--", *program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        told: dict[int, tuple[int, int, int]] = {}
        deadline = time.monotonic() + 20
        while len(told) < 7 and time.monotonic() < deadline:
            time.sleep(0.2)
            told = seen_by_ss(port)
        process.communicate(timeout=60)
    document = json.loads(out.read_text())
    mine = {
        entry["local"]["port"]: (entry["pid"], entry["bytes_sent"], entry["bytes_received"])
        for entry in document["connections"]
        if entry["remote"]["port"] == port
    }
    assert len(told) == 7
    assert mine == told


def seen_by_ss(port):
    """Return local port → (pid, bytes sent, bytes received) of the connections to a port that had an answer."""
    command = ["ss", "-tinpOH", "state", "established", f"( dport = :{port} )"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        fields = {word: re.search(rf"\b{word}:(\d+)", line) for word in ("bytes_sent", "bytes_received")}
        pid = re.search(r"pid=(\d+)", line)
        local = re.search(r"127\.0\.0\.1:(\d+)", line)
        sent, received = fields["bytes_sent"], fields["bytes_received"]
        if sent and received and pid and local:
            found[int(local[1])] = (int(pid[1]), int(sent[1]), int(received[1]))
    return found


def outcomes(document, port):
    return [(entry["outcome"], entry["pid"]) for entry in document["connections"] if entry["remote"]["port"] == port]


def test_refused_connects_are_refused(tmp_path):
    port = free_port()
    argv = [sys.executable, str(CLIENTS / "attempts.py"), "5", *[f"127.0.0.1:{port}"] * 20]
    document, lines = traced(tmp_path, argv)
    assert {line.split()[1] for line in lines} == {"111"}
    assert outcomes(document, port) == [("refused", int(lines[0].split()[0]))] * 20


def test_filtered_connects_time_out_or_are_given_up(tmp_path):
    """The kernel's own end and the program's impatience are two outcomes."""
    with PrivateNetwork({"rules": ["tcp dport PORT drop"], "sysctl": {"net.ipv4.tcp_syn_retries": "1"}}) as net:
        net.armed(4242)
        sysctl = ["sysctl", "-qw", "net.ipv4.tcp_syn_linear_timeouts=0"]
        subprocess.run(net.for_client(sysctl), check=False, capture_output=True)  # older kernels have no such variable
        program = [sys.executable, str(CLIENTS / "attempts.py")]
        patient, said = traced(tmp_path, net.for_client([*program, "0", "127.0.0.1:4242"]))
        hasty, gave_up = traced(tmp_path, net.for_client([*program, "0.3", *["127.0.0.1:4242"] * 3]))
    assert said[0].split()[1] == "110"
    assert [outcome for outcome, _ in outcomes(patient, 4242)] == ["timeout"]
    assert [entry["syn_retransmits"] for entry in patient["connections"]] == [1]
    assert {line.split()[1] for line in gave_up} == {"-1"}
    assert [outcome for outcome, _ in outcomes(hasty, 4242)] == ["cancelled"] * 3


def test_unreachable_connects_are_unreachable(tmp_path):
    with PrivateNetwork({"sysctl": {"net.ipv4.tcp_syn_retries": "1"}}) as net:
        route = ["ip", "route", "add", "unreachable", "10.77.9.0/24"]
        subprocess.run(net.for_client(route), check=True)
        argv = net.for_client([sys.executable, str(CLIENTS / "attempts.py"), "5", *["10.77.9.1:4242"] * 3])
        document, lines = traced(tmp_path, argv)
    assert {line.split()[1] for line in lines} <= {"101", "113"}
    assert [outcome for outcome, _ in outcomes(document, 4242)] == ["unreachable"] * 3


HALF_OPEN = """
import pathlib, socket, sys, time
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.sendall(b"hello")
sock.recv(10)
print(sock.getsockname()[1], flush=True)
pathlib.Path(sys.argv[2]).touch()
while not pathlib.Path(sys.argv[3]).exists():
    time.sleep(0.01)
try:
    sock.sendall(b"again")
    sock.recv(10)
except OSError as error:
    print(error.errno)
"""
VANISHING = """
import socket, struct, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
sock, _ = listener.accept()
sock.recv(10)
sock.sendall(b"hello")
sys.stdin.readline()
sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
sock.close()
"""


def test_a_half_open_connection_ends_by_the_other_side(tmp_path):
    """The server forgets a connection while its packets are dropped; the client's next word is answered by a reset."""
    ready, go, out = tmp_path / "ready", tmp_path / "go", tmp_path / "trace.json"
    pipe = subprocess.PIPE
    with PrivateNetwork({"rules": ["tcp sport PORT drop"]}) as net:
        argv = net.for_server([sys.executable, "-c", VANISHING])
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            port = int(server.stdout.readline())
            mine = net.for_client([sys.executable, "-c", HALF_OPEN, str(port), str(ready), str(go)])
            with subprocess.Popen([*NETDIAG, str(out), "--", *mine], stdout=pipe, stderr=pipe, text=True) as process:
                wait_until(ready)
                net.armed(port)
                server.communicate("vanish\n", timeout=10)
                subprocess.run(net.for_server(["nft", "flush", "ruleset"]), check=True)
                go.touch()
                said, errors = process.communicate(timeout=60)
    assert out.exists(), errors[-500:]
    local, errno = (int(line) for line in said.split())
    (entry,) = [one for one in json.loads(out.read_text())["connections"] if one["local"]["port"] == local]
    assert errno == 104
    assert (entry["outcome"], entry["closed_by"], entry["close"]) == ("established", "remote", "rst")
    assert (entry["bytes_sent"], entry["bytes_received"]) == (10, 5)


def wait_until(path):
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not come"
        time.sleep(0.02)


def test_a_connect_that_nobody_accepts_is_established_all_the_same(tmp_path):
    """The kernel answers for a listener that never accepts: the client is connected."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        port = listener.getsockname()[1]
        argv = [sys.executable, str(CLIENTS / "attempts.py"), "5", *[f"127.0.0.1:{port}"] * 5]
        document, lines = traced(tmp_path, argv)
    assert {line.split()[1] for line in lines} == {"0"}
    entries = [entry for entry in document["connections"] if entry["remote"]["port"] == port]
    assert [(entry["outcome"], entry["closed_by"]) for entry in entries] == [("established", "local")] * 5
    assert {(entry["bytes_sent"], entry["bytes_received"]) for entry in entries} == {(0, 0)}
