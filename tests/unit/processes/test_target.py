# SPDX-License-Identifier: Apache-2.0
"""From the words of the command line to what the recorder looks for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("processes are looked up on Linux only", allow_module_level=True)

from netdiag.errors import UsageError
from netdiag.processes import target as target_module
from netdiag.processes.target import Target, cgroup2_mount, open_pid, resolve

ID = "3f9a" * 16
UID = "0a1b2c3d-1111-2222-3333-444455556666"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is taken for the cgroup v2 tree."""
    mount = tmp_path / "cgroup"
    mount.mkdir()
    (mount / "cgroup.procs").write_text("")
    monkeypatch.setattr(target_module, "cgroup2_mount", lambda: mount)
    return mount


def group(mount: Path, path: str, *pids: int) -> Path:
    folder = mount / path
    for one in (*reversed(folder.relative_to(mount).parents), folder.relative_to(mount)):
        (mount / one).mkdir(exist_ok=True)
        (mount / one / "cgroup.procs").touch()
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    return folder


def test_nothing_named_is_the_whole_machine():
    assert Target().is_everything
    assert not Target(ports=(443,)).is_everything
    message = resolve(Target())
    here = Path("/proc/self/ns/pid").stat()
    assert message == {
        "pids": [],
        "pid_namespace": {"dev": here.st_dev, "ino": here.st_ino},
        "follow": True,
        "exe": None,
        "comm": None,
        "cgroup": None,
        "port": None,
        "hosts": [],
        "names": {},
    }


def test_processes_are_checked_and_named_once():
    me = os.getpid()
    assert resolve(Target(pids=(me, me), follow=False))["pids"] == [me]
    with subprocess.Popen(["true"]) as gone:
        pass
    with pytest.raises(UsageError, match=f"there is no process {gone.pid}"):
        resolve(Target(pids=(gone.pid,)))


def test_a_thread_is_not_a_process():
    known, done, tids = threading.Event(), threading.Event(), []

    def wait() -> None:
        tids.append(threading.get_native_id())
        known.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        known.wait()
        with pytest.raises(UsageError, match="is not a process") as raised:
            open_pid(tids[0])
    finally:
        done.set()
        thread.join()
    assert raised.value.hint == f"name its process: --pid {os.getpid()}"


def test_one_port_one_program_one_thread_name():
    message = resolve(Target(ports=(443, 443), exe=("python3",), comm=("a",)))
    assert (message["port"], message["exe"], message["comm"]) == (443, "python3", "a")
    with pytest.raises(UsageError, match="--port can be given once"):
        resolve(Target(ports=(80, 443)))
    with pytest.raises(UsageError, match="from 1 to 65535"):
        resolve(Target(ports=(65536,)))


def test_hosts_become_networks_and_keep_their_names(monkeypatch: pytest.MonkeyPatch):
    def look_up(name: str, port: None, type: int) -> list[tuple[Any, ...]]:  # noqa: A002 - as getaddrinfo has it
        assert (name, port, type) == ("api.example.com", None, socket.SOCK_STREAM)
        v4, v6 = ("192.0.2.7", 0), ("2001:db8::7", 0, 0, 0)
        return [(2, 1, 6, "", v4), (10, 1, 6, "", v6), (2, 1, 6, "", v4)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    message = resolve(Target(hosts=("198.51.100.9/24", "[::1]", "api.example.com", "127.0.0.1")))
    assert message["hosts"] == ["198.51.100.0/24", "::1/128", "192.0.2.7/32", "2001:db8::7/128", "127.0.0.1/32"]
    assert message["names"] == {"192.0.2.7": "api.example.com", "2001:db8::7": "api.example.com"}


@pytest.mark.parametrize("host", ["x" * 70 + ".invalid", "a..b", "\x00"])
def test_a_host_that_cannot_be_found_is_told(host):
    with pytest.raises(UsageError, match="--host"):
        resolve(Target(hosts=(host,)))


def test_a_cgroup_is_named_by_its_path_or_from_the_root_of_the_tree(tree):
    folder = group(tree, "system.slice/web.service")
    for name in (str(folder), "/system.slice/web.service", "system.slice/web.service"):
        assert resolve(Target(cgroups=(name,)))["cgroup"] == str(folder)
    for wrong in ("/nothing", "/../../etc"):
        with pytest.raises(UsageError, match="no such cgroup"):
            resolve(Target(cgroups=(wrong,)))


def test_of_several_cgroups_the_members_are_taken(tree):
    group(tree, "one", 11)
    group(tree, "two", 22)
    group(tree, "two/below", 33)
    message = resolve(Target(cgroups=("/one", "/two")))
    assert message["cgroup"] is None
    assert sorted(message["pids"]) == [11, 22, 33]


def test_a_container_is_found_by_the_beginning_of_its_id(tree):
    folder = group(tree, f"system.slice/docker-{ID}.scope")
    group(tree, f"system.slice/docker-{ID}.scope/init")
    for name in (ID, ID[:12], f"docker://{ID[:12]}"):
        assert resolve(Target(containers=(name,)))["cgroup"] == str(folder)


@pytest.mark.usefixtures("tree")
def test_a_container_outside_the_v2_tree_is_found_by_its_processes(tmp_path, monkeypatch):
    proc = tmp_path / "proc"
    (proc / "42").mkdir(parents=True)
    (proc / "42" / "cgroup").write_text(f"4:memory:/docker/{ID}\n0::/\n")
    (proc / "43").mkdir()
    (proc / "43" / "cgroup").write_text("0::/\n")
    (proc / "self" / "ns").mkdir(parents=True)
    (proc / "self" / "ns" / "pid").touch()
    monkeypatch.setattr(target_module, "PROC", proc)
    assert resolve(Target(containers=(ID[:12],)))["pids"] == [42]
    with pytest.raises(UsageError, match="no cgroup and no process of container deadbeef"):
        resolve(Target(containers=("deadbeef",)))


@pytest.mark.parametrize("name", ["web", "3f9", "../x", ""])
def test_a_container_needs_an_id(tree, name):
    assert tree.is_dir()
    with pytest.raises(UsageError, match="an id of at least 6"):
        resolve(Target(containers=(name,)))


def test_a_pod_is_found_by_the_kubelets_folder_of_logs(tree, tmp_path, monkeypatch):
    logs = tmp_path / "pods"
    (logs / f"default_web-0_{UID}").mkdir(parents=True)
    (logs / "default_web-01_00000000-0000-0000-0000-000000000000").mkdir()
    monkeypatch.setattr(target_module, "POD_LOGS", logs)
    folder = group(tree, f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice")
    group(tree, f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope")
    assert resolve(Target(pods=("default/web-0",)))["cgroup"] == str(folder)
    with pytest.raises(UsageError, match="there is no pod default/other"):
        resolve(Target(pods=("default/other",)))
    for wrong in ("web", "/web", "a/b/c", "de_fault/web"):
        with pytest.raises(UsageError, match="write NAMESPACE/NAME"):
            resolve(Target(pods=(wrong,)))
    monkeypatch.setattr(target_module, "POD_LOGS", tmp_path / "missing")
    with pytest.raises(UsageError, match="cannot be read"):
        resolve(Target(pods=("default/web-0",)))


def test_without_a_v2_tree_a_cgroup_cannot_be_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(target_module, "cgroup2_mount", lambda: None)
    with pytest.raises(UsageError, match="no cgroup v2 tree"):
        resolve(Target(cgroups=("/x",)))


def test_the_v2_tree_is_found_among_the_mounts():
    mounts = (
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
        r"38 31 0:35 / /sys/fs/cgroup/uni\040fied rw,relatime shared:9 - cgroup2 cgroup2 rw"
    )
    assert cgroup2_mount(mounts) == Path("/sys/fs/cgroup/uni fied")
    assert cgroup2_mount("") is None
    assert cgroup2_mount("1 2 3\nnonsense - \n") is None
