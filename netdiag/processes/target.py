# SPDX-License-Identifier: Apache-2.0
"""Which processes are meant: from the words of the command line to what the recorder can look for.

Reads /proc, the cgroup tree and the resolver; opens nothing for writing. Standard library only.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from netdiag.errors import UsageError

__all__ = ["Target", "cgroup2_mount", "open_pid", "resolve"]

PROC = Path("/proc")
POD_LOGS = Path("/var/log/pods")
"""Where every kubelet keeps one folder per pod, NAMESPACE_NAME_UID."""

T = TypeVar("T")

_CONTAINER_WORD = re.compile(r"[0-9a-f]{6,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Whom to trace, as the user said it. Everything given must hold; nothing given = the whole machine."""

    pids: tuple[int, ...] = ()
    """As numbered in the PID namespace of the caller."""
    exe: tuple[str, ...] = ()
    """Names of programs, or absolute paths."""
    comm: tuple[str, ...] = ()
    """Thread names, at most 15 bytes each."""
    cgroups: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    """Container ids, or at least six digits of one."""
    pods: tuple[str, ...] = ()
    """NAMESPACE/NAME."""
    ports: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    """Names, addresses or networks (192.0.2.0/24)."""
    follow: bool = True
    """Whether later children of the processes belong to them."""

    @property
    def is_everything(self) -> bool:
        """Whether no process, cgroup, port or host was named."""
        words = (self.pids, self.exe, self.comm, self.cgroups, self.containers, self.pods, self.ports, self.hosts)
        return not any(words)


def resolve(target: Target) -> dict[str, Any]:
    """Return the target as the recorder's start message carries it.

        {"pids": [int], "pid_namespace": {"dev": int, "ino": int}, "follow": bool, "exe": str | None,
         "comm": str | None, "cgroup": path | None, "port": int | None, "hosts": ["192.0.2.0/24"],
         "names": {"192.0.2.7": "api.example.com"}}

    One cgroup is a filter in the kernel; of several the present members are taken, with their later children. `hosts`
    holds networks, addresses as networks of one. Raises UsageError for what does not exist, cannot be resolved, or may
    be named once only.
    """
    namespace = (PROC / "self/ns/pid").stat()
    cgroups = [_checked_cgroup(path) for path in target.cgroups]
    pids = [_checked_pid(pid) for pid in target.pids]
    for container in target.containers:
        _add(_members(_container_word(container), f"container {container}"), cgroups, pids)
    for pod in target.pods:
        _add(_members(_pod_pattern(pod), f"pod {pod}"), cgroups, pids)
    cgroups = list(dict.fromkeys(cgroups))
    if len(cgroups) > 1:
        pids += (pid for path in cgroups for pid in _pids_in(Path(path)))
    hosts, names = _networks(target.hosts)
    return {
        "pids": list(dict.fromkeys(pids)),
        "pid_namespace": {"dev": namespace.st_dev, "ino": namespace.st_ino},
        "follow": target.follow,
        "exe": _once("--exe", target.exe),
        "comm": _once("--comm", target.comm),
        "cgroup": cgroups[0] if len(cgroups) == 1 else None,
        "port": _once("--port", [_checked_port(port) for port in target.ports]),
        "hosts": hosts,
        "names": names,
    }


def open_pid(pid: int) -> int:
    """Return a descriptor that becomes readable when process `pid` ends. Raises UsageError where there is none."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise UsageError(f"there is no process {pid}") from error
    except OSError as error:
        hint = f"name its process: --pid {leader}" if (leader := _leader(pid)) else None
        raise UsageError(f"{pid} is not a process: {error.strerror}", hint=hint) from error


def cgroup2_mount(mountinfo: str | None = None) -> Path | None:
    """Return where the cgroup v2 tree is mounted, or None. `mountinfo` is the text of /proc/self/mountinfo."""
    text = mountinfo if mountinfo is not None else (PROC / "self/mountinfo").read_text(errors="surrogateescape")
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        if separator and after.split(" ", 1)[0] == "cgroup2":
            return Path(_unescape(before.split(" ")[4]))
    return None


def _add(found: tuple[list[str], list[int]], cgroups: list[str], pids: list[int]) -> None:
    cgroups += found[0]
    pids += found[1]


def _members(pattern: re.Pattern[str], what: str) -> tuple[list[str], list[int]]:
    """Return the cgroups whose path matches, or where the v2 tree has none, the processes whose v1 path does."""
    mount = cgroup2_mount()
    cgroups = list(_topmost(mount, pattern)) if mount is not None else []
    if cgroups:
        return cgroups, []
    pids = [pid for pid in _all_pids() if pattern.search(_cgroup_text(pid))]
    if not pids:
        raise UsageError(f"no cgroup and no process of {what} was found", hint="is it running, and on this machine?")
    return [], pids


def _topmost(mount: Path, pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield the folders of the cgroup tree that match, not those below a match."""
    for folder, below, _ in os.walk(mount):
        for name in list(below):
            if pattern.search(name):
                below.remove(name)
                yield str(Path(folder, name))


def _container_word(container: str) -> re.Pattern[str]:
    word = container.rpartition("://")[2].lower()
    if not _CONTAINER_WORD.fullmatch(word):
        raise UsageError(f"--container {container}: an id of at least 6 hexadecimal digits is needed, not a name")
    return re.compile(rf"(?:^|[-/:]){word}")


def _pod_pattern(pod: str) -> re.Pattern[str]:
    """Return what the cgroups of a pod have in their names: its uid, which the kubelet's log folder tells."""
    namespace, slash, name = pod.partition("/")
    if not (namespace and slash and name) or "/" in name or "_" in pod:
        raise UsageError(f"--pod {pod}: write NAMESPACE/NAME")
    try:
        logs = [path.name for path in POD_LOGS.iterdir() if path.name.startswith(f"{namespace}_{name}_")]
    except OSError as error:
        raise UsageError(f"--pod {pod}: {POD_LOGS} cannot be read ({error.strerror})", hint="use --cgroup") from error
    if not logs:
        raise UsageError(f"there is no pod {pod} on this machine")
    uids = [log.rpartition("_")[2] for log in logs]
    return re.compile("|".join("pod" + re.escape(uid).replace("\\-", "[-_]") for uid in uids))


def _networks(hosts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the networks that `hosts` mean, and which name each looked-up address was found under."""
    networks: dict[str, None] = {}
    names: dict[str, str] = {}
    for host in hosts:
        try:
            networks[str(ipaddress.ip_network(host.strip("[]"), strict=False))] = None
        except ValueError:
            for address in _look_up(host):
                networks[str(ipaddress.ip_network(address))] = None
                names[address] = host
    return list(networks), names


def _look_up(host: str) -> list[str]:
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise UsageError(f"--host {host}: {reason}") from error
    return list(dict.fromkeys(str(sockaddr[0]).partition("%")[0] for *_, sockaddr in answers))


def _checked_cgroup(path: str) -> str:
    """Return the absolute path of a cgroup given as such, or from the root of the tree."""
    mount = cgroup2_mount()
    if mount is None:
        raise UsageError("--cgroup: no cgroup v2 tree is mounted on this machine")
    given = Path(os.path.normpath(path))
    inside = given if given.is_relative_to(mount) else mount / str(given).lstrip("/")
    if not os.path.exists(inside / "cgroup.procs") or not inside.resolve().is_relative_to(mount):  # noqa: PTH110 - may be closed
        raise UsageError(f"--cgroup {path}: there is no such cgroup under {mount}")
    return str(inside)


def _checked_pid(pid: int) -> int:
    os.close(open_pid(pid))
    return pid


def _checked_port(port: int) -> int:
    if not 0 < port < 1 << 16:
        raise UsageError(f"--port {port}: ports go from 1 to 65535")
    return port


def _once(option: str, values: Sequence[T]) -> T | None:
    """Return the one value, None where there is none: the kernel's filter has room for one."""
    if len(set(values)) > 1:
        raise UsageError(f"{option} can be given once")
    return values[0] if values else None


def _pids_in(cgroup: Path) -> Iterator[int]:
    """Yield the processes of a cgroup and of those below it."""
    for members in cgroup.rglob("cgroup.procs"):
        try:
            yield from map(int, members.read_text().split())
        except OSError:  # a threaded cgroup, or one that was just removed
            continue


def _leader(tid: int) -> int | None:
    """Return the process that thread `tid` belongs to, or None."""
    try:
        text = (PROC / str(tid) / "status").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^Tgid:\t(\d+)$", text, re.MULTILINE)
    return int(found.group(1)) if found and int(found.group(1)) != tid else None


def _all_pids() -> Iterator[int]:
    return (int(entry.name) for entry in os.scandir(PROC) if entry.name.isdecimal())


def _cgroup_text(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cgroup").read_text(errors="replace")
    except OSError:  # it ended meanwhile
        return ""


def _unescape(path: str) -> str:
    r"""Return a path of mountinfo with its octal escapes (`\040` = space) undone."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), path)
