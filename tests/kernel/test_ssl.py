# SPDX-License-Identifier: Apache-2.0
"""Handshakes and contexts as TLS libraries make them, compared with what the programs themselves timed."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from netdiag.lab import certificate
from netdiag.symbols import Elf
from tests.kernel.harness import serve, until
from tests.kernel.library_ends import Program, Server

pytestmark = pytest.mark.kernel

CLIENT = """
import json, os, socket, ssl, sys, time
count, timeout, pause = int(sys.argv[3]), float(sys.argv[4]) or None, float(sys.argv[5])
context = ssl.create_default_context(cafile=sys.argv[2])
for _ in range(count):
    time.sleep(pause)
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=timeout)
    port, began = sock.getsockname()[1], time.monotonic_ns()
    secure = context.wrap_socket(sock, server_hostname="localhost")
    # one write: several processes share the pipe
    os.write(1, (json.dumps([port, began, time.monotonic_ns()]) + "\\n").encode())
    secure.close()
"""
MEMORY = """
import ssl, sys
client, server = ssl.create_default_context(cafile=sys.argv[1]), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(sys.argv[1], sys.argv[2])
print("ready", flush=True)
done = 0
while sys.stdin in __import__("select").select([sys.stdin], [], [], 0)[0] or done < 5000:
    pipes = [ssl.MemoryBIO() for _ in range(2)]
    ends = [client.wrap_bio(pipes[0], pipes[1], server_hostname="localhost"), server.wrap_bio(pipes[1], pipes[0], True)]
    left = list(ends)
    while left:
        for end in list(left):
            try:
                end.do_handshake()
                left.remove(end)
            except ssl.SSLWantReadError:
                pass
    done += 1
    if done % 10 == 0:
        print(done, flush=True)
"""

# While the library makes the first message of one handshake, it calls the program, which begins another one in memory.
CALLED_BACK = """
import json, os, socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
begun = []
def called(*_):
    if not begun:
        begun.append(ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="other"))
        try:
            begun[0].do_handshake()
        except ssl.SSLWantReadError:
            pass
context._msg_callback = called
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=float(sys.argv[3]) or None)
port = sock.getsockname()[1]
secure = context.wrap_socket(sock, server_hostname="localhost")
os.write(1, (json.dumps([port, len(begun)]) + "\\n").encode())
begun.clear()
secure.close()
"""


@pytest.fixture
def server(keep, tmp_path):
    return keep(Server(tmp_path))


@pytest.fixture
def program(keep):
    return lambda *argv, **options: keep(Program(*argv, **options))


def python(server, count=3, *, timeout=5.0, pause=0.0):
    return (sys.executable, "-I", "-c", CLIENT, server.port, server.cert, count, timeout, pause)


def run(trace, program, **settings):
    """Trace a program from its start to its end; return trace, tables and what it printed."""
    tracing = trace(pids=[program.pid], **settings)
    said = program.end()
    return tracing, tracing.stop(), said


def ports(tables, calls):
    """Return the local port of the connection of each handshake; None where it is not bound."""
    known = tables.connections["local_port"]
    return [None if math.isnan(row) else int(known.iloc[int(row)]) for row in calls["connection"]]


def in_memory(pid, path, function):
    """Return what stands in a process's memory at the start of a library's function, and in the file."""
    with Path(path).open("rb") as file:
        elf = Elf(file.fileno())
        offset = elf.place(elf.exported([function])[function]).offset
        file.seek(offset)
        original = file.read(1)
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        (low, high, start), *_ = re.findall(r"^(\w+)-(\w+) \S+ (\w+)", line)
        first, size = int(start, 16), int(high, 16) - int(low, 16)
        if line.endswith(str(path)) and line.split()[1][2] == "x" and first <= offset < first + size:
            with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
                memory.seek(int(low, 16) + offset - first)
                return memory.read(1), original
    raise AssertionError(f"{path} is not mapped")


def libssl(pid):
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return next(line.split()[-1] for line in lines if re.search(r"libssl[.-].*so", line))


@pytest.mark.parametrize("multi", [True, False])
def test_handshakes_are_what_the_program_timed(trace, program, server, multi):
    _, tables, said = run(trace, program(*python(server)), options={"uprobe_multi": multi})
    calls = tables.tls_calls
    assert ports(tables, calls) == [port for port, _, _ in said]
    assert calls["ok"].all()
    assert set(calls["library"]) == {"openssl"}
    assert set(calls["binding"]) == {"calls"}
    assert list(tables.handshakes["source"]) == ["both"] * 3
    assert list(tables.contexts["kind"]) == ["context", "ca-bundle"]


def test_instants_and_durations_are_right(trace, program, server):
    tracing, tables, said = run(trace, program(*python(server, 20)))
    calls = tables.tls_calls
    began = [tracing.since_start(began) for _, began, _ in said]
    ended = [tracing.since_start(ended) for _, _, ended in said]
    assert (calls["started_ns"] >= began).all()
    assert (calls["ended_ns"] <= ended).all()
    outside = [
        (e - b) / 1e6 - (d - s) / 1e6
        for b, e, s, d in zip(began, ended, calls["started_ns"], calls["ended_ns"], strict=True)
    ]
    assert sorted(outside)[10] < 1.0
    assert (calls["inside_ms"] <= (calls["ended_ns"] - calls["started_ns"]) / 1e6 + 1e-6).all()
    assert (calls["cpu_ms"].dropna() <= calls["inside_ms"][calls["cpu_ms"].notna()]).all()


@pytest.mark.parametrize("blocking", [True, False])
def test_waiting_and_work_are_told_apart(trace, program, keep, tmp_path, blocking):
    server = keep(Server(tmp_path, think=lambda _: 0.12))
    _, tables, _ = run(trace, program(*python(server, 3, timeout=0.0 if blocking else 5.0)))
    calls = tables.tls_calls
    took = (calls["ended_ns"] - calls["started_ns"]) / 1e6
    assert (took > 115).all()
    if blocking:  # the library itself waits
        assert (calls["calls"] == 1).all()
        assert (calls["inside_ms"] > 115).all()
        assert calls["cpu_ms"].min() < 60 or calls["cpu_ms"].isna().all()
    else:
        assert (calls["calls"] >= 2).all()
        assert (calls["inside_ms"] < 60).all()


def test_each_of_many_handshakes_at_once_gets_its_own_connection(trace, program, keep, tmp_path):
    server = keep(Server(tmp_path, think=lambda number: 0.02 * (7 * number % 25)))
    source = (
        "import asyncio, json, ssl, sys, time\n"
        "context = ssl.create_default_context(cafile=sys.argv[2])\n"
        "async def one():\n"
        "    _, writer = await asyncio.open_connection('127.0.0.1', int(sys.argv[1]), ssl=context,"
        " server_hostname='localhost')\n"
        "    print(json.dumps([writer.get_extra_info('sockname')[1], time.monotonic_ns()]), flush=True)\n"
        "    writer.close()\n"
        "async def main():\n"
        "    await asyncio.gather(*(one() for _ in range(25)))\n"
        "asyncio.run(main())\n"
    )
    tracing, tables, said = run(trace, program(sys.executable, "-I", "-c", source, server.port, server.cert))
    done = {port: tracing.since_start(at) for port, at in said}
    calls = tables.tls_calls
    bound = ports(tables, calls)
    assert len(calls) == 25
    assert sorted(bound) == sorted(done)
    late = [abs(done[port] - ended) / 1e6 for port, ended in zip(bound, calls["ended_ns"], strict=True)]
    assert max(late) < 15  # a neighbour's ended 20 ms earlier or later


@pytest.mark.parametrize("timeout", [0.0, 5.0])  # the library waits for the server, or the program does
def test_a_handshake_that_begins_inside_another_takes_nothing_from_it(trace, program, server, timeout):
    _, tables, [[port, begun]] = run(
        trace, program(sys.executable, "-I", "-c", CALLED_BACK, server.port, server.cert, timeout)
    )
    assert begun == 1
    calls = tables.tls_calls
    assert list(zip(ports(tables, calls), calls["ok"], calls["binding"], strict=True)) == [
        (port, True, "calls"),
        (None, False, None),
    ]


def test_a_refused_certificate_is_a_handshake_that_did_not_work(trace, program, server):
    source = (
        "import socket, ssl, sys\n"
        "try:\n"
        "    context = ssl.create_default_context()\n"
        "    sock = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "    context.wrap_socket(sock, server_hostname='localhost')\n"
        "except ssl.SSLError:\n"
        "    sys.exit(0)\n"
    )
    _, tables, _ = run(trace, program(sys.executable, "-I", "-c", source, server.port))
    assert list(tables.tls_calls["ok"]) == [False]
    assert ports(tables, tables.tls_calls) == [int(tables.connections["local_port"].iloc[0])]


def test_children_are_followed_at_fork_and_exec(trace, program, server):
    source = (
        "import os, ssl, subprocess, sys\n"
        "ssl.create_default_context(cafile=sys.argv[2])\n"
        "for _ in range(2):\n"
        "    if not os.fork():\n"
        "        exec(os.environ['CLIENT'])\n"
        "        os._exit(0)\n"
        "for _ in range(2):\n"
        "    os.wait()\n"
        "subprocess.run([sys.executable, '-I', '-c', os.environ['CLIENT'], *sys.argv[1:]], check=True)\n"
    )
    given = python(server, 2, pause=0.1)
    env = {**os.environ, "CLIENT": CLIENT}
    parent = program(sys.executable, "-c", source, *given[4:], env=env)
    _, tables, said = run(trace, parent)
    assert len(said) == 6
    assert sorted(ports(tables, tables.tls_calls)) == sorted(port for port, _, _ in said)
    assert tables.tls_calls["pid"].nunique() == 3
    assert parent.pid not in set(tables.tls_calls["pid"])


def test_short_programs_are_in_time(trace, program, server):
    given = (
        " ".join(f"'{word}'" for word in python(server, 1)[:3]) + ' "$0" ' + " ".join(map(str, python(server, 1)[4:]))
    )
    shell = program("/bin/sh", "-c", f"for i in 1 2 3 4 5 6; do {given}; done", CLIENT)
    _, tables, said = run(trace, shell)
    assert len(said) == 6
    assert ports(tables, tables.tls_calls) == [port for port, _, _ in said]


def test_a_library_that_is_loaded_late_from_an_unusual_place_is_found(trace, program, tmp_path):
    here = libssl(os.getpid())
    crypto = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libcrypto" in line)
    shutil.copy(here, tmp_path / "libssl-1a2b3c4d.so.3")
    shutil.copy(crypto, tmp_path / Path(crypto).name)
    source = (
        "import ctypes, sys, time\n"
        "time.sleep(0.25)\n"
        "ctypes.CDLL(sys.argv[2], ctypes.RTLD_GLOBAL)\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "library.TLS_client_method.restype = library.SSL_CTX_new.restype = ctypes.c_void_p\n"
        "library.SSL_CTX_new.argtypes = [ctypes.c_void_p]\n"
        "time.sleep(0.5)\n"
        "assert library.SSL_CTX_new(library.TLS_client_method())\n"
    )
    late = program(sys.executable, "-I", "-c", source, tmp_path / "libssl-1a2b3c4d.so.3", tmp_path / Path(crypto).name)
    tracing, tables, _ = run(trace, late)
    assert list(tables.contexts["kind"]) == ["context"]
    (fact,) = tracing.recording.facts_of("tls_library")
    assert (fact["pid"], fact["library"], fact["how"]) == (late.pid, "openssl", "symbols")
    assert fact["path"] == str(tmp_path / "libssl-1a2b3c4d.so.3")
    assert fact["version"] == ssl.OPENSSL_VERSION.split()[1]


def test_a_bystander_that_uses_the_same_library_is_never_touched(trace, program, server, keep):
    bystander = keep(Program(sys.executable, "-I", "-c", MEMORY, server.cert, server.key))
    bystander.go()
    assert bystander.process.stdout.readline() == b"ready\n"
    traced = program(*python(server, 30, pause=0.03))
    tracing = trace(pids=[traced.pid])
    traced.go()
    until(lambda: "libssl" in Path(f"/proc/{traced.pid}/maps").read_text())
    path = libssl(bystander.pid)
    assert libssl(traced.pid) == path
    hit, original = in_memory(traced.pid, path, "SSL_do_handshake")
    assert hit != original  # the breakpoint: so the look at the other one means something
    before = bystander.process.stdout.readline()
    traced.end()
    for function in ("SSL_do_handshake", "SSL_free", "SSL_CTX_new"):
        mine, original = in_memory(bystander.pid, path, function)
        assert mine == original
    after = bystander.process.stdout.readline()
    tables = tracing.stop()
    assert int(after) > int(before)
    assert set(tables.tls_calls["pid"]) == {traced.pid}
    (cost,) = tracing.recording.facts_of("cost")
    runs = {entry["name"]: entry["runs"] for entry in cost["programs"]}
    made = int(tables.tls_calls["calls"].sum())
    assert made <= runs["tls_enter"] <= 3 * made + 20  # each handshake's calls and its end; one context


def test_breakpoints_go_with_the_trace(trace, program, server):
    traced = program(sys.executable, "-I", "-c", MEMORY, server.cert, server.key)
    tracing = trace(pids=[traced.pid])
    traced.go()
    assert traced.process.stdout.readline() == b"ready\n"
    path = libssl(traced.pid)
    hit, original = in_memory(traced.pid, path, "SSL_do_handshake")
    assert hit != original
    tracing.stop()
    assert in_memory(traced.pid, path, "SSL_do_handshake") == (original, original)


def test_a_program_that_runs_already_is_probed_before_the_trace_is_armed(trace, program, server):
    running = program(*python(server, 60, pause=0.05))
    running.go()
    time.sleep(0.3)
    tracing = trace(pids=[running.pid])
    armed = tracing.armed["at_ns"]
    said = [row for row in running.end() if row[1] > armed]
    tables = tracing.stop()
    bound = ports(tables, tables.tls_calls)
    assert said
    assert bound[-len(said) :] == [port for port, _, _ in said]


def test_a_program_in_a_container_is_probed(trace, program, server, tmp_path):
    if os.geteuid():
        pytest.skip("needs root to mount")
    script = (
        'set -e; mount -t tmpfs none "$0"; mkdir "$0/u" "$0/w" "$0/m"\n'
        'mount -t overlay overlay -o "lowerdir=/,upperdir=$0/u,workdir=$0/w" "$0/m" || exit 77\n'
        'mount -t proc proc "$0/m/proc"; cp "$1" "$0/m/certificate"; shift\n'
        'exec chroot "$0/m" "$@"\n'
    )
    folder = tmp_path / "root"
    folder.mkdir()
    argv = [*python(server)[:5], "/certificate", *python(server)[6:]]
    boxed = program("unshare", "--mount", "sh", "-c", script, folder, server.cert, *argv)
    tracing = trace(pids=[boxed.pid])
    out, err = boxed.process.communicate(b"\n", timeout=60)
    if boxed.process.returncode == 77:
        pytest.skip(f"no overlay here: {err.decode()}")
    assert boxed.process.returncode == 0, err.decode()
    tables = tracing.stop()
    said = [json.loads(line) for line in out.decode().splitlines()]
    assert ports(tables, tables.tls_calls) == [port for port, _, _ in said]
    assert list(tables.contexts["kind"]) == ["context", "ca-bundle"]


NODE = """
const https = require("https"), fs = require("fs");
const ca = fs.readFileSync(process.argv[2]);
const options = { host: "localhost", port: Number(process.argv[1]), ca, agent: false };
const get = () => new Promise((ok, no) => https.get(options, (r) => { r.resume(); r.on("end", ok); }).on("error", no));
(async () => { await get(); await Promise.all([get(), get(), get()]); })();
"""


@pytest.mark.parametrize(
    ("argv", "count", "library"),
    [
        (["node", "-e", NODE, "PORT", "CERT"], 4, "openssl"),
        (["curl", "-sS", "--cacert", "CERT", "-o", "/dev/null", "https://localhost:PORT/"], 1, "openssl"),
        (["wget", "-q", "--ca-certificate=CERT", "-O", "/dev/null", "https://localhost:PORT/"], 1, "gnutls"),
    ],
    ids=["node", "curl", "wget"],
)
def test_other_clients(trace, program, server, argv, count, library):
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not here")
    words = [word.replace("PORT", str(server.port)).replace("CERT", str(server.cert)) for word in argv]
    tracing, tables, _ = run(trace, program(*words))
    calls = tables.tls_calls
    if argv[0] == "curl" and not len(calls) and "GnuTLS" in subprocess.check_output(["curl", "--version"], text=True):
        pytest.skip("curl with another library")
    assert len(calls) == count
    assert calls["ok"].all()
    assert sorted(calls["connection"]) == sorted(tables.handshakes["connection"])
    assert set(calls["library"]) == {library}
    assert (tables.contexts["kind"] == "context").sum() >= 1
    assert library in {fact["library"] for fact in tracing.recording.facts_of("tls_library")}


def test_a_server_s_workers_are_probed(trace, program, tmp_path):
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not here")
    key, cert = certificate.make(tmp_path)
    listener = serve()
    port = listener.getsockname()[1]
    listener.close()
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; worker_processes 1; user root;\n"
        f"events {{}}\nhttp {{ access_log off; server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {cert};\n"
        f"ssl_certificate_key {key}; return 204; }} }}\n"
    )
    master = program("nginx", "-p", tmp_path, "-e", tmp_path / "error.log", "-c", tmp_path / "nginx.conf")
    tracing = trace(pids=[master.pid])
    master.go()
    until((tmp_path / "pid").exists)
    time.sleep(0.3)
    context = ssl.create_default_context(cafile=cert)
    for _ in range(3):
        with (
            socket.create_connection(("127.0.0.1", port)) as sock,
            context.wrap_socket(sock, server_hostname="localhost"),
        ):
            pass
    time.sleep(0.1)
    master.process.terminate()
    tables = tracing.stop()
    calls = tables.tls_calls
    assert len(calls) == 3
    assert calls["ok"].all()
    assert calls["connection"].nunique() == 3
    assert calls["pid"].nunique() == 1
    assert master.pid not in set(calls["pid"])


def test_the_probe_can_be_left_out(trace, program, server):
    tracing, tables, _ = run(trace, program(*python(server)), probes=["process", "tcp", "tls"])
    assert tracing.recording.records("tls_call") is None
    assert list(tables.handshakes["source"]) == ["wire"] * 3
    assert [row["name"] for row in tracing.armed["coverage"]["probes"]] == ["process", "tcp", "tls"]


def test_without_the_wire_handshakes_come_from_the_library(trace, program, server):
    _, tables, said = run(trace, program(*python(server)), probes=["process", "tcp", "ssl"])
    assert list(tables.handshakes["source"]) == ["library"] * 3
    assert list(tables.handshakes["outcome"]) == ["completed"] * 3
    own = [(ended - began) / 1e6 for _, began, ended in said]
    assert all(0 < mine <= theirs for mine, theirs in zip(tables.handshakes["duration_ms"], own, strict=True))


def test_the_recorder_stays_small(trace, program, server):
    programs = [program(*python(server, 3))]
    if shutil.which("node"):
        programs.append(program("node", "-e", NODE, server.port, server.cert))
    tracing = trace(pids=[each.pid for each in programs])
    for each in programs:
        each.end()
    time.sleep(0.3)
    status = Path(f"/proc/{tracing.pid}/status").read_text()
    tracing.stop()
    assert int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) < 20_480
