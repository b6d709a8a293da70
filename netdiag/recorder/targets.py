# SPDX-License-Identifier: Apache-2.0
"""From the front's description of the target to the filters of the kernel programs."""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from netdiag.errors import UsageError

__all__ = ["Filters", "filters"]

_MAX_PIDS = 16384
_MAX_HOSTS = 256
_NAME_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What the kernel programs are told."""

    knobs: dict[str, int | bytes]
    """`const volatile` variables."""
    pids: tuple[int, ...]
    """Entries of the map `targets`."""
    hosts: tuple[bytes, ...]
    """Keys of the map `hosts`: prefix length and v4-mapped or v6 address."""


def filters(target: Mapping[str, Any]) -> Filters:
    """Return the filters for a target; UsageError for what is not one."""
    exe, comm = _one(target, "exe"), _one(target, "comm")
    pids = [*_pids(target), *(_running(exe) if exe else ())]
    cgroup = target.get("cgroup")
    knobs: dict[str, int | bytes] = {
        "nd_filter_follow": int(bool(target.get("follow", True))),
        "nd_filter_port": _number(target, "port", 65535),
    }
    if pids or exe:
        knobs["nd_filter_tgids"] = 1
    if exe:
        knobs["nd_filter_exe"] = _name(os.path.basename(exe))
    if comm:
        knobs["nd_filter_comm"] = _name(comm)
    if cgroup is not None:
        identity, level, members = _cgroup(cgroup)
        knobs.update(nd_filter_cgroup=identity, nd_filter_cgroup_level=level)
        pids += members
    hosts = tuple(_prefixes(target.get("hosts") or ()))
    if hosts:
        knobs["nd_filter_hosts"] = 1
    return Filters(knobs=knobs, pids=tuple(dict.fromkeys(pids)), hosts=hosts)


def _one(target: Mapping[str, Any], key: str) -> str | None:
    value = target.get(key)
    if isinstance(value, list):
        if len(value) > 1:
            raise UsageError(f"--{key} can be given once")
        value = value[0] if value else None
    if value is not None and not (isinstance(value, str) and value):
        raise UsageError(f"--{key} must be a name")
    return value


def _number(target: Mapping[str, Any], key: str, most: int) -> int:
    value = target.get(key)
    if value is None:
        return 0
    if not isinstance(value, int) or not 0 < value <= most:
        raise UsageError(f"{key} must be a number from 1 to {most}")
    return value


def _pids(target: Mapping[str, Any]) -> list[int]:
    value = target.get("pids") or []
    if not isinstance(value, list) or len(value) > _MAX_PIDS or not all(isinstance(p, int) and p > 0 for p in value):
        raise UsageError("pids must be a list of process numbers")
    return value


def _name(text: str) -> bytes:
    # the kernel cuts thread names at 15 characters; programs' names are compared as far
    return text.encode()[: _NAME_BYTES - 1].ljust(_NAME_BYTES, b"\0")


def _running(exe: str) -> Iterator[int]:
    """Yield the processes whose program has the base name or the path `exe`."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                path = os.readlink(f"/proc/{entry}/exe")
            except OSError:  # a kernel thread, or gone
                continue
            path = path.removesuffix(" (deleted)")
            if exe in (path, os.path.basename(path)):
                yield int(entry)


def _cgroup(path: object) -> tuple[int, int, list[int]]:
    """Return id, level and present members of a cgroup v2 folder: its id is its inode (kernel/cgroup/cgroup.c)."""
    if not isinstance(path, str):
        raise UsageError("cgroup must be a path")
    real = os.path.realpath(path)
    mount = next((m for m in _cgroup_mounts() if real == m or real.startswith(m + "/")), None)
    if mount is None or not os.path.isdir(real):
        raise UsageError(f"{path} is no folder of a cgroup v2 hierarchy")
    members: list[int] = []
    for folder, _, files in os.walk(real):
        if "cgroup.procs" in files:
            with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
                members += [int(line) for line in file.read().split()]
    return os.stat(real).st_ino, len(real[len(mount) :].strip("/").split("/")) if real != mount else 0, members


def _cgroup_mounts() -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.split() for line in file]
    return [fields[4] for fields in lines if "-" in fields and fields[fields.index("-") + 1] == "cgroup2"]


def cgroup_root() -> str | None:
    """Return where cgroup v2 is mounted, or None."""
    return next(iter(_cgroup_mounts()), None)


def _prefixes(hosts: Iterable[object]) -> Iterator[bytes]:
    for count, host in enumerate(hosts):
        if count >= _MAX_HOSTS:
            raise UsageError(f"at most {_MAX_HOSTS} addresses can be asked for")
        try:
            network = ipaddress.ip_network(str(host), strict=False)
        except ValueError as error:
            raise UsageError(f"'{host}' is no address or prefix: {error}") from error
        if isinstance(network, ipaddress.IPv4Network):
            address = b"\0" * 10 + b"\xff\xff" + network.network_address.packed
            yield struct.pack("=I16s", 96 + network.prefixlen, address)
        else:
            yield struct.pack("=I16s", network.prefixlen, network.network_address.packed)
