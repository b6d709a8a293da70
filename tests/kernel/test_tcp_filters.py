# SPDX-License-Identifier: Apache-2.0
"""Who is traced and who is not: every filter, with a bystander beside it that does the same."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
import time

import pytest

from tests.kernel.harness import cookie, drain, ended_well, half, in_child, serve

pytestmark = pytest.mark.kernel

PR_SET_NAME = 15
SHELL = """
talk() { exec 3<>/dev/tcp/127.0.0.1/$1; echo hello >&3; read answer <&3; exec 3>&-; }
while read what port; do
  case $what in
    talk) talk $port ;;
    child) (talk $port; exit 0) ;;
    run) bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; echo hello >&3; read answer <&3" ;;
    exec) exec $port -c "$0" ;;
  esac
  echo done
done
"""


class Server:
    """Answers each line; one thread a connection. Ports tell who came."""

    def __init__(self, address="127.0.0.1"):
        self.listener = serve(address)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with sock:
                sock.recv(100)
                sock.sendall(b"answer\n")

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Shell:
    """A program that connects when it is told to, by itself or in a child; `program` may be a copy of bash."""

    def __init__(self, *program):
        argv = [*(program or ("bash",)), "-c", SHELL, SHELL]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def do(self, what, argument):
        print(what, argument, file=self.process.stdin, flush=True)
        if what != "exec":
            assert self.process.stdout is not None
            assert self.process.stdout.readline() == "done\n"

    def close(self):
        self.process.communicate(timeout=10)


@pytest.fixture
def server(keep):
    return keep(Server())


def owners(tables, port):
    """Return the processes of the clients that connected to a port, in order."""
    ends = tables.connections
    return ends.loc[(ends["remote_port"] == port) & (ends["role"] == "client"), "pid"].tolist()


def talk(*shells, what="talk", to):
    for shell in shells:
        shell.do(what, to.port)


def test_a_process_and_its_later_children(trace, keep, server):
    target, bystander = keep(Shell(), Shell())
    tracing = trace(pids=[target.pid])
    for what in ("talk", "child", "run"):
        talk(target, bystander, what=what, to=server)
    tables = tracing.stop()
    pids = owners(tables, server.port)
    assert len(pids) == 3
    assert pids[0] == target.pid
    assert len(set(pids)) == 3, "each child owns its own connection"
    assert len(tables.connections) == 3
    assert bystander.pid not in tables.processes["pid"].tolist()


def test_a_process_without_its_children(trace, keep, server):
    target = keep(Shell())
    tracing = trace(pids=[target.pid], follow=False)
    for what in ("child", "talk", "run"):
        talk(target, what=what, to=server)
    tables = tracing.stop()
    assert owners(tables, server.port) == [target.pid]
    assert len(tables.connections) == 1


def test_children_that_were_there_before_the_trace_are_not_followed(trace, keep, server):
    """`--pid` means the process; who is to be traced with its present children names them."""
    here, there = keep(*socket.socketpair())

    def wait_and_talk():
        there.recv(1)
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(b"hello")
            sock.recv(100)

    child = in_child(wait_and_talk)
    tracing = trace()
    here.sendall(b".")
    ended_well([child])
    tables = tracing.stop()
    assert owners(tables, server.port) == []
    assert tables.connections["role"].tolist() == ["server"], "the end of the process itself"


def test_threads_by_their_name(trace, server):
    tracing = trace(pids=[], comm="ndk-wanted")

    def work(name):
        ctypes.CDLL(None).prctl(PR_SET_NAME, name, 0, 0, 0)
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(b"hello")
            sock.recv(100)

    for name in (b"ndk-wanted", b"ndk-other", b"ndk-wanted2"):
        thread = threading.Thread(target=work, args=(name,))
        thread.start()
        thread.join()
    ends = tracing.stop().connections
    assert ends["comm"].tolist() == ["ndk-wanted"]


def test_a_program_that_runs_and_one_that_is_started_later(trace, keep, server, tmp_path):
    program = tmp_path / "ndk-client"
    shutil.copy("/bin/bash", program)
    link = tmp_path / "ndk-link"
    link.symlink_to(program)
    before, bystander = keep(Shell(str(program)), Shell())
    tracing = trace(pids=[], exe="ndk-client")
    later, linked = keep(Shell(str(program)), Shell(str(link)))
    talk(before, later, linked, bystander, to=server)
    becoming = keep(Shell())
    talk(becoming, to=server)
    becoming.do("exec", str(program))
    talk(becoming, to=server)
    tables = tracing.stop()
    assert owners(tables, server.port) == [before.pid, later.pid, linked.pid, becoming.pid]
    assert len(tables.connections) == 4


def test_a_program_by_its_path(trace, keep, server, tmp_path):
    one, other = tmp_path / "a" / "ndk-twin", tmp_path / "b" / "ndk-twin"
    for path in (one, other):
        path.parent.mkdir()
        shutil.copy("/bin/bash", path)
    wanted, namesake = keep(Shell(str(one)), Shell(str(other)))
    tracing = trace(pids=[], exe=str(one))
    talk(wanted, namesake, to=server)
    assert owners(tracing.stop(), server.port) == [wanted.pid]


def test_a_cgroup_with_those_below_it(trace, keep, server, cgroup):
    inner = cgroup / "inner"
    inner.mkdir()
    members = keep(Shell(), Shell())
    bystander = keep(Shell())
    (cgroup / "cgroup.procs").write_text(str(members[0].pid))
    (inner / "cgroup.procs").write_text(str(members[1].pid))
    tracing = trace(pids=[], cgroup=str(cgroup))
    talk(*members, bystander, to=server)
    late = keep(Shell())
    (cgroup / "cgroup.procs").write_text(str(late.pid))
    talk(late, to=server)
    ends = tracing.stop().connections
    assert ends["pid"].tolist() == [members[0].pid, members[1].pid, late.pid]
    assert ends["cgroup"].tolist() == [cgroup.stat().st_ino, inner.stat().st_ino, cgroup.stat().st_ino]


def test_a_port_local_or_remote(trace, keep):
    wanted, other = keep(Server(), Server())
    tracing = trace(port=wanted.port)
    for server in (wanted, other):
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(b"hello")
            sock.recv(100)
    ends = tracing.stop().connections
    assert sorted(ends["role"]) == ["client", "server"]
    assert set(ends["local_port"]) & set(ends["remote_port"]) >= {wanted.port}
    assert other.port not in {*ends["local_port"], *ends["remote_port"]}


@pytest.mark.parametrize(
    ("hosts", "inside", "outside"),
    [
        (["127.4.0.0/16"], ["127.4.0.1", "127.4.255.9"], ["127.0.0.1", "127.5.0.1"]),
        (["127.0.0.9"], ["127.0.0.9"], ["127.0.0.8"]),
        (["fd00:77::/32", "127.4.0.0/16"], ["fd00:77::1", "fd00:77:5::1", "127.4.0.1"], ["fd00:78::1", "::1"]),
        (["::ffff:127.4.0.0/112"], ["127.4.0.1"], ["127.5.0.1"]),
        (["::/0"], ["::1", "fd00:77::1"], []),
        (["0.0.0.0/0"], ["127.0.0.1"], ["::1"]),
    ],
)
def test_remote_hosts(hosts, inside, outside, trace, network, keep):
    for address in {*inside, *outside}:
        if address.startswith("fd"):
            network.run("ip", "addr", "add", f"{address}/128", "dev", "lo", "nodad")
    tracing = trace(hosts=hosts)
    numbers = []
    for address in (*inside, *outside):
        with network.inside():
            listener = keep(serve(address))
            client, server = keep(*half(listener))
        client.sendall(b"hello")
        drain(server, 5)
        numbers.append(cookie(client))
        client.close()
    ends = tracing.stop().connections
    clients = ends[ends["role"] == "client"]
    assert clients["cookie"].tolist() == numbers[: len(inside)]
    assert clients["remote_ip"].tolist() == inside


def test_the_whole_machine(trace, keep, server):
    one, other = keep(Shell(), Shell())
    tracing = trace(pids=[])
    talk(one, other, to=server)
    time.sleep(0.05)
    ends = tracing.stop().connections
    mine = ends[(ends["local_port"] == server.port) | (ends["remote_port"] == server.port)]
    assert mine[mine["role"] == "client"]["pid"].tolist() == [one.pid, other.pid]
    assert mine[mine["role"] == "server"]["pid"].tolist() == [os.getpid()] * 2
