# SPDX-License-Identifier: Apache-2.0
"""Fork, exec, exit, names, masks, containers: the life of real processes as the recording tells it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from netdiag.tables.codes import ProcessKind
from tests.kernel.harness import ended_well, in_child, serve

pytestmark = pytest.mark.kernel

BASH = "/bin/bash"


@pytest.fixture
def gate(cleanup):
    """Return a started shell that waits for a line before it runs the given script; its number is known before."""
    started = []

    def start(script, *arguments):
        argv = [BASH, "-c", f"read _; {script}", *arguments]
        started.append(cleanup.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE, text=True)))
        return started[-1]

    return start


def go(process):
    process.communicate("go\n", timeout=20)
    return process.returncode


def row(tables, pid):
    found = tables.processes[tables.processes["pid"] == pid]
    assert len(found) == 1
    return found.iloc[0]


def test_children_programs_and_exit_codes(trace, gate):
    target = gate("/bin/sh -c 'exit 3'; /bin/sh -c 'kill -9 $$'; exit 5")
    tracing = trace(pids=[target.pid])
    began = time.monotonic_ns()
    assert go(target) == 5
    ended = time.monotonic_ns()
    tables = tracing.stop()
    children = tables.processes[tables.processes["ppid"] == target.pid]
    assert sorted(children["exit_code"]) == [3, 137]
    assert row(tables, target.pid)["exit_code"] == 5
    assert tracing.since_start(began) <= row(tables, target.pid)["ended_ns"] <= tracing.since_start(ended)
    for _, child in children.iterrows():
        assert tracing.since_start(began) <= child["started_ns"] <= child["ended_ns"] <= tracing.since_start(ended)


def test_the_order_of_fork_exec_and_exit(trace, gate):
    target = gate("/usr/bin/env sleep 0.05; true")
    tracing = trace(pids=[target.pid])
    go(target)
    tracing.stop()
    events = tracing.recording.records("process")
    (child,) = set(events["tgid"].tolist()) - {target.pid}
    mine = events[events["tgid"] == child]
    kinds = [ProcessKind.FORK, ProcessKind.EXEC, ProcessKind.EXEC, ProcessKind.EXIT]
    assert mine["kind"].tolist() == kinds
    assert [name.decode() for name in mine["filename"]] == ["", "/usr/bin/env", "/usr/bin/sleep", ""]
    assert [name.decode() for name in mine["comm"]] == ["bash", "env", "sleep", "sleep"]
    assert set(mine["parent"].tolist()) == {target.pid}
    assert (mine["time"][1:] >= mine["time"][:-1]).all()


def test_a_program_that_becomes_another_one_keeps_its_connections(trace, gate, keep):
    listener = keep(serve())
    talk = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}; echo hello >&3"
    target = gate(f"{talk}; exec /bin/sh -c 'echo again >&3; sleep 0.1'")
    tracing = trace(pids=[target.pid])
    go(target)
    tables = tracing.stop()
    (connection,) = [entry for _, entry in tables.connections.iterrows()]
    assert (connection["pid"], connection["bytes_sent"], connection["comm"]) == (target.pid, 12, "bash")
    mine = row(tables, target.pid)
    assert os.path.realpath(mine["exe"]) == os.path.realpath("/bin/sh")
    assert mine["exit_code"] == 0


def test_a_process_that_renames_itself(trace, gate, keep):
    listener = keep(serve())
    talk = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}"
    target = gate(f"echo -n ndk-renamed >/proc/$$/comm; {talk}; sleep 0.1")
    tracing = trace(pids=[target.pid])
    go(target)
    ends = tracing.stop().connections
    assert (ends["comm"].tolist(), ends["pid"].tolist()) == (["ndk-renamed"], [target.pid])


def test_processes_that_live_for_a_millisecond_own_their_connections(trace, keep):
    listener = keep(serve(backlog=128))
    address = listener.getsockname()
    tracing = trace()
    children = [in_child(lambda: socket.create_connection(address).close()) for _ in range(50)]
    ended_well(children)
    tables = tracing.stop()
    clients = tables.connections[tables.connections["role"] == "client"]
    assert sorted(clients["pid"]) == children
    known = tables.processes[tables.processes["pid"].isin(children)]
    assert len(known) == 50
    assert (known["exit_code"] == 0).all()
    assert (known["ppid"] == os.getpid()).all()


def test_threads_are_no_processes_and_the_last_one_ends_it(trace, gate):
    code = "import threading, time; threads = [threading.Thread(target=time.sleep, args=(0.05,)) for _ in range(5)]\n"
    code += "for thread in threads: thread.start()\n"
    code += "import ctypes; ctypes.CDLL(None).syscall(60, 7)"  # exit, not exit_group: the first thread ends first
    target = gate(f"exec {sys.executable} -c '{code}'")
    tracing = trace(pids=[target.pid])
    began = time.monotonic_ns()
    go(target)
    tracing.stop()
    events = tracing.recording.records("process")
    kinds = events[events["tgid"] == target.pid]["kind"].tolist()
    assert set(events["tgid"].tolist()) == {target.pid}
    assert kinds.count(ProcessKind.EXIT) == 1
    assert kinds.count(ProcessKind.FORK) == 0
    exit_ = events[events["kind"] == ProcessKind.EXIT]["time"][0]
    assert int(exit_) - began > 50e6


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_process_that_a_signal_ends(number, trace, gate):
    target = gate("sleep 60")
    tracing = trace(pids=[target.pid])
    os.kill(target.pid, number)
    target.wait(10)
    assert row(tracing.stop(), target.pid)["exit_code"] == 128 + number


def test_secrets_in_arguments_are_not_recorded(trace, gate, keep):
    listener = keep(serve())
    secret = "sk-ndk0123456789abcdefghij"
    talk = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}; sleep 0.2; true"
    target = gate(talk, "name", "--api-key", secret, f"--token={secret}", f"https://user:{secret}@localhost/")
    tracing = trace(pids=[target.pid])
    go(target)
    tables = tracing.stop()
    argv = row(tables, target.pid)["argv"]
    assert argv[:2] == [BASH, "-c"]
    assert "--api-key" in argv
    assert secret.encode() not in tracing.path.read_bytes()


def test_a_process_in_a_container_like_cgroup(trace, gate, keep, cgroup):
    identity = "ab" * 32
    inner = cgroup / f"docker-{identity}.scope"
    inner.mkdir()
    listener = keep(serve())
    target = gate(f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}; sleep 0.2")
    (inner / "cgroup.procs").write_text(str(target.pid))
    tracing = trace(pids=[target.pid])
    go(target)
    tables = tracing.stop()
    mine = row(tables, target.pid)
    assert mine["container"] == identity
    assert str(mine["cgroup"]).endswith(inner.name)
    assert tables.connections["cgroup"].tolist() == [inner.stat().st_ino]


def test_when_a_process_started(trace, keep):
    """As old as /proc says, to its 10 ms."""
    listener = keep(serve())
    tracing = trace()
    thread = threading.Thread(target=lambda: socket.create_connection(listener.getsockname()).close())
    thread.start()
    thread.join()
    time.sleep(0.1)
    tables = tracing.stop()
    stat = Path("/proc/self/stat").read_text(encoding="ascii")
    started_s = int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_s * 1e9
    now = tracing.since_start(time.monotonic_ns())
    assert now - row(tables, os.getpid())["started_ns"] == pytest.approx(age_ns, abs=30e6)


def test_servers_are_described_like_clients_when_the_whole_machine_is_traced(trace, keep):
    """One that starts to listen later, and its worker that is forked later still."""
    tracing = trace(pids=[])
    here, there = keep(*socket.socketpair())

    def work(listener):
        with listener.accept()[0] as sock:
            sock.recv(10)
            time.sleep(0.2)

    def listen():
        with serve() as listener:
            there.sendall(str(listener.getsockname()[1]).encode())
            worker = in_child(lambda: work(listener))
            there.sendall(f" {worker}".encode())
            ended_well([worker])

    parent = in_child(listen)
    told = b""
    while b" " not in told[:-1]:
        told += here.recv(100)
    time.sleep(0.05)
    port, worker = map(int, told.split())
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"hello")
        ended_well([parent])
    tables = tracing.stop()
    ends = tables.connections[tables.connections["local_port"] == port]
    assert ends["pid"].tolist() == [worker]
    known = tables.processes.set_index("pid")
    assert known.loc[worker, "exe"] == os.path.realpath(sys.executable)
    assert known.loc[worker, "argv"] is not None
    assert parent in known.index
