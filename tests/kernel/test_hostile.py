# SPDX-License-Identifier: Apache-2.0
"""Targets that are killed, moved and hidden; a full ring; a tracer that dies; broken recordings."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from netdiag.errors import InputUnreadable
from netdiag.recording.reader import read
from netdiag.tables import build
from tests.kernel.harness import ROOT, cookie, drain, ended_well, half, in_child, programs_of, run, serve, until

pytestmark = pytest.mark.kernel

NETDIAG = [sys.executable, "-m", "netdiag"]
TRACE = [*NETDIAG, "trace", "--as-root", "--format", "json"]


def talk(address, count=1):
    for _ in range(count):
        with socket.create_connection(address) as sock:
            sock.sendall(b"hello")


def clients(tables):
    return tables.connections[tables.connections["role"] == "client"]


# --- targets ------------------------------------------------------------------------------------------------------


def test_a_target_that_is_killed_in_the_middle(trace, keep):
    listener = keep(serve())
    here, there = keep(*socket.socketpair())

    def work():
        with socket.create_connection(listener.getsockname()) as sock:
            there.sendall(struct.pack("=Q", cookie(sock)))
            time.sleep(60)

    tracing = trace()
    child = in_child(work)
    (number,) = struct.unpack("=Q", here.recv(8))
    server = keep(listener.accept()[0])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert server.recv(1) == b""
    server.close()
    tables = tracing.stop()
    row = tracing.row(number)
    assert (row["pid"], row["closed_by"], row["close"]) == (child, "local", "fin")
    process = tables.processes[tables.processes["pid"] == child].iloc[0]
    assert process["exit_code"] == 137


def test_a_target_that_moves_to_another_network_namespace(trace, network, keep):
    here = keep(serve())
    with network.inside():
        there = keep(serve())

    def work():
        talk(here.getsockname())
        with network.inside():
            talk(there.getsockname())

    tracing = trace()
    child = in_child(work)
    ended_well([child])
    rows = clients(tracing.stop())
    assert rows["remote_port"].tolist() == [here.getsockname()[1], there.getsockname()[1]]
    assert rows["pid"].tolist() == [child, child]
    assert len(set(rows["netns"])) == 2


def test_a_target_in_a_pid_namespace_of_its_own(trace, keep):
    """Its number is the one that netdiag sees, not the one that it sees itself."""
    listener = keep(serve())
    port = listener.getsockname()[1]
    script = f"echo $$ >&2; exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3; sleep 0.2; true"
    gate = ["bash", "-c", 'read _; exec "$@"', "gate", "unshare", "-pf", "bash", "-c", script]
    with subprocess.Popen(gate, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as target:
        tracing = trace(pids=[target.pid])
        print("go", file=target.stdin, flush=True)
        server = keep(listener.accept()[0])
        drain(server, 6)
        inner = set(Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text().split())
        assert target.communicate(timeout=10)[1] == "1\n", "by its own count it is the first process"
    assert clients(tracing.stop())["pid"].tolist() == [int(pid) for pid in inner]


def test_a_target_that_moves_to_another_cgroup(trace, cgroup, keep):
    listener = keep(serve())

    def work():
        talk(listener.getsockname())
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        talk(listener.getsockname())

    tracing = trace()
    ended_well([in_child(work)])
    ids = clients(tracing.stop())["cgroup"].tolist()
    assert ids[1] == cgroup.stat().st_ino
    assert ids[0] != ids[1]


def test_a_target_in_another_root(trace, keep, tmp_path):
    """Its files are found through its own root: a bind mount of the machine's, in a mount namespace of its own."""
    listener = keep(serve())
    script = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}; sleep 0.2; true"
    root = tmp_path / "root"
    root.mkdir()
    inner = f"mount --bind / {root} && exec chroot {root} /bin/bash -c '{script}'"
    gate = ["bash", "-c", 'read _; exec "$@"', "gate", "unshare", "-m", "sh", "-c", inner]
    with subprocess.Popen(gate, stdin=subprocess.PIPE, text=True) as target:
        tracing = trace(pids=[target.pid])
        target.communicate("go\n", timeout=10)
    tables = tracing.stop()
    assert clients(tables)["pid"].tolist() == [target.pid]
    process = tables.processes[tables.processes["pid"] == target.pid].iloc[0]
    assert process["argv"][0] == "/bin/bash"
    assert process["exe"].endswith("/bash")


# --- netdiag in a container ---------------------------------------------------------------------------------------

CONTAINED = """
import json, os, socket, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.kernel.harness import Trace, ended_well, in_child, run, serve
run("ip", "link", "set", "lo", "up")
listener = serve()
def work():
    with socket.create_connection(listener.getsockname()) as sock:
        sock.sendall(b"hello")
sys.stdin.readline()
with Trace(Path({path!r}){target}) as tracing:
    print("armed", flush=True)
    sys.stdin.readline()
    children = [in_child(work) for _ in range(5)]
    ended_well(children)
    sys.stdin.readline()
    tracing.stop()
print(json.dumps({{"self": os.getpid(), "children": children}}))
"""
NEIGHBOUR = """
import os, socket, sys
sys.path.insert(0, {root!r})
from tests.kernel.harness import ended_well, in_child, run, serve
run("ip", "link", "set", "lo", "up")
listener = serve(backlog=200)
def work():
    with socket.create_connection(listener.getsockname()) as sock:
        sock.sendall(b"hello")
work()
ended_well([in_child(work) for _ in range(80)])
"""


def contained(code, **settings):
    argv = ["unshare", "-pmn", "--fork", "--mount-proc", sys.executable, "-c", code.format(root=str(ROOT), **settings)]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def traced_in_a_container(path, target=""):
    """Trace in a container while processes with the very same numbers talk in the one next door."""
    with contained(CONTAINED, path=str(path), target=target) as one:
        one.stdin.write("\n")
        one.stdin.flush()
        assert one.stdout.readline() == "armed\n"
        with contained(NEIGHBOUR) as other:
            assert other.communicate(timeout=20)[1] == ""
        out, errors = one.communicate("\n\n", timeout=20)
    assert errors == ""
    return json.loads(out), build(read(path))


def test_netdiag_in_a_container_sees_the_numbers_of_its_container_and_no_neighbour(tmp_path):
    told, tables = traced_in_a_container(tmp_path / "inner.ndrec")
    assert sorted(clients(tables)["pid"]) == sorted(told["children"])
    assert set(tables.processes["pid"]) == {told["self"], *told["children"]}
    assert len(tables.connections) == 10


def test_the_whole_machine_from_a_container_gives_strangers_no_number(tmp_path):
    told, tables = traced_in_a_container(tmp_path / "inner.ndrec", ", pids=[]")
    rows = clients(tables)
    assert sorted(rows["pid"].dropna()) == sorted(told["children"])
    assert rows["pid"].isna().sum() >= 81
    assert 0 not in tables.processes["pid"].tolist()


def test_the_whole_command_in_a_container(tmp_path):
    out = tmp_path / "out.json"
    script = f"import os, socket, sys; sys.path.insert(0, {str(ROOT)!r})\n"
    script += "from tests.kernel.harness import serve\nlistener = serve()\n"
    script += "socket.create_connection(listener.getsockname()).close()\nlistener.close()\nprint(os.getpid())"
    command = f'ip link set lo up; exec "$@" -o {out} -- {sys.executable} -c "{script}"'
    argv = ["unshare", "-pmn", "--fork", "--mount-proc", "sh", "-c", command, "sh", *TRACE]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert out.exists(), done.stderr
    document = json.loads(out.read_text())
    assert [entry["pid"] for entry in document["connections"]] == [int(done.stdout)] * 2
    assert int(done.stdout) < 100, "a number of the container"


def test_netdiag_in_a_time_namespace_keeps_the_time_of_the_kernel():
    """There the clocks that a program reads are moved; those of the kernel programs are not."""
    code = "from netdiag.selftest import run; print(run(3).mismatches)"
    argv = ["unshare", "-T", "--fork", "--monotonic", "5000", "--boottime", "7000", sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    if "unshare" in done.stderr:
        pytest.skip(f"needs time namespaces: {done.stderr.strip()}")
    assert (done.stdout, done.stderr) == ("()\n", "")


# --- many, and too many -------------------------------------------------------------------------------------------


def test_ten_thousand_connections_at_once(trace, keep):
    """All of them open; the server's ends are another process's, for one may not hold 20,000 descriptors."""
    listener = keep(serve(backlog=4096))
    here, there = keep(*socket.socketpair())

    def accept():
        socks = [listener.accept()[0] for _ in range(10_000)]
        for sock in socks:
            sock.sendall(b"x")
        there.recv(1)

    tracing = trace()
    child = in_child(accept)
    socks = [socket.socket() for _ in range(10_000)]
    try:
        for sock in socks:
            sock.connect(listener.getsockname())
        for sock in socks:
            assert sock.recv(1) == b"x"
        numbers = {cookie(sock) for sock in socks}
        began = time.monotonic()
        tables = tracing.stop()
        took_s = time.monotonic() - began
        again = trace(pids=[os.getpid(), child]).stop()
    finally:
        here.sendall(b".")
        for sock in socks:
            sock.close()
        ended_well([child])
    rows = clients(tables)
    assert set(rows["cookie"]) == numbers
    assert len(tables.connections) == 20_000
    assert set(tables.connections["close"]) == {"open"}
    assert set(rows["bytes_received"]) == {1}
    servers = tables.connections[tables.connections["role"] == "server"]
    assert set(servers["pid"]) == {child}
    assert [loss.lost for loss in tables.losses] == [0] * len(tables.losses)
    assert took_s < 10
    assert set(clients(again)["cookie"]) == numbers, "they are found by a trace that starts later, too"
    assert len(again.connections) == 20_000
    assert [loss.lost for loss in again.losses] == [0] * len(again.losses)


def test_what_finds_no_room_is_counted_and_said(trace, keep):
    """The recorder is stopped while more happens than its rings hold."""
    listener = keep(serve(backlog=128))
    tracing = trace()
    os.kill(tracing.pid, signal.SIGSTOP)
    count = 6000
    for _ in range(count):
        client, server = half(listener)
        client.sendall(b"x")
        drain(server, 1)
        client.close()
        server.close()
    os.kill(tracing.pid, signal.SIGCONT)
    tables = tracing.stop()
    recording = tracing.recording
    seen, lost = tracing.loss("tcp")
    assert lost > 0
    assert tables.lossy
    assert seen == len(recording.records("tcp"))
    assert seen + lost >= count * 2 * 2, "each end was established and closed"
    command = [*NETDIAG, "analyze", str(tracing.path), "--format", "json"]
    document = json.loads(run(*command))
    (said,) = [entry for entry in document["coverage"]["events"] if entry["probe"] == "tcp"]
    assert (said["seen"], said["lost"]) == (seen, lost)


# --- a tracer that dies -------------------------------------------------------------------------------------------


def loaded():
    return {entry["id"] for entry in json.loads(run("bpftool", "-j", "prog", "show"))}


def recorder_of(front):
    """Return the recorder that a netdiag process started."""
    for _ in range(500):
        for pid in Path(f"/proc/{front}/task/{front}/children").read_text().split():
            if b"launch.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
        time.sleep(0.01)
    raise AssertionError("no recorder was started")


@pytest.mark.parametrize("end", [signal.SIGKILL, None])
def test_nothing_stays_attached(end, trace, keep):
    tracing = trace()
    mine = programs_of(tracing.pid)
    assert len(mine) > 10
    assert mine <= loaded()
    talk(keep(serve()).getsockname(), 3)
    time.sleep(0.1)
    if end is None:
        tracing.stop()
    else:
        os.kill(tracing.pid, end)
        with pytest.raises(EOFError):
            tracing.link.receive(5)
    until(lambda: not mine & loaded(), 5)


def test_a_recorder_that_was_killed_leaves_a_recording_that_opens(trace, keep):
    listener = keep(serve())
    tracing = trace()
    talk(listener.getsockname(), 5)
    time.sleep(0.2)
    os.kill(tracing.pid, signal.SIGKILL)
    with pytest.raises(EOFError):
        tracing.link.receive(5)
    tables = tracing.load()
    assert tables.truncated
    assert len(clients(tables)) == 5
    assert tracing.recording.end is None
    done = subprocess.run([*NETDIAG, "analyze", str(tracing.path)], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("victim", ["recorder", "front"])
def test_the_command_lives_on_when_netdiag_is_killed(victim, tmp_path):
    proof, out = tmp_path / "proof", tmp_path / "out.json"
    script = f"sleep 1.5; echo alive >{proof}; exit 7"
    argv = [*TRACE, "-o", str(out), "--", "sh", "-c", script]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, cwd=ROOT) as front:
        recorder = recorder_of(front.pid)
        until(lambda: len(programs_of(recorder)) > 10)
        mine = programs_of(recorder)
        time.sleep(0.3)
        os.kill(recorder if victim == "recorder" else front.pid, signal.SIGKILL)
        until(lambda: not mine & loaded(), 5)
        errors = front.communicate(timeout=20)[1]
    until(proof.exists)
    until(lambda: proof.read_text() == "alive\n")
    assert "Traceback" not in errors
    if victim == "recorder":
        assert front.returncode == 7


# --- recordings ---------------------------------------------------------------------------------------------------


@pytest.fixture
def small(trace, keep):
    """Return a small real recording."""
    listener = keep(serve())
    tracing = trace()
    client, server = keep(*half(listener))
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    drain(server, 27)
    server.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    drain(client, 38)
    client.close()
    server.close()
    tracing.stop()
    return tracing.path


def test_a_recording_that_was_cut_anywhere(small):
    """Read at every length; joined and analysed wherever something more can be used than a byte before."""
    whole = small.read_bytes()
    assert len(read(whole).facts) > 3
    before, opened = None, 0
    for length in range(len(whole)):
        try:
            recording = read(whole[:length])
        except InputUnreadable:
            continue
        opened += 1
        assert recording.end is None
        known = (len(recording.facts), {name: len(runs) for name, runs in recording.runs.items()}, recording.end)
        if known != before:
            before = known
            assert build(recording).truncated
    assert opened > len(whole) / 2
    assert not build(read(whole)).truncated


def test_a_cut_recording_is_analysed_by_the_command(small, tmp_path):
    whole = small.read_bytes()
    cut = tmp_path / "cut.ndrec"
    for share in (0.0, 0.01, 0.5, 0.9, 0.999):
        cut.write_bytes(whole[: int(len(whole) * share)])
        done = subprocess.run([*NETDIAG, "analyze", str(cut)], capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        assert done.returncode in {0, 6}


def test_one_recording_analysed_twice_gives_the_same_bytes(small):
    outputs: dict[str, set[bytes]] = {}
    for form in ("json", "markdown", "csv", "table"):
        for seed in ("1", "2"):
            env = {**os.environ, "PYTHONHASHSEED": seed}
            command = [*NETDIAG, "analyze", str(small), "--format", form]
            outputs.setdefault(form, set()).add(
                subprocess.run(command, capture_output=True, env=env, check=True).stdout
            )
    assert {form: len(found) for form, found in outputs.items()} == dict.fromkeys(outputs, 1)


def test_the_clocks_stand_in_the_recording(small):
    recording = read(small)
    first, last = recording.header["clock"], recording.facts_of("clock")[-1]
    moved = [last[name] - first[name] for name in ("monotonic_ns", "realtime_ns", "boottime_ns")]
    assert all(0 < step < 10e9 for step in moved)
    assert max(moved) - min(moved) < 5e6
