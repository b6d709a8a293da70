# SPDX-License-Identifier: Apache-2.0
"""Loads kernel objects in a child process and takes over nothing but descriptors.

Loading makes libbpf parse all of the kernel's BTF: some 11 MB for a tenth of a second. In a child of its own that
memory is gone with the child, and the recorder that lives as long as the trace never maps libbpf.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from netdiag import errors
from netdiag.errors import NetdiagError, Unsupported

__all__ = ["Job", "Loaded", "Plan", "load"]

Reply = list[dict[str, Any]] | dict[str, Any]
"""One entry per object, or the error that ended it all."""

_MAX_FDS_PER_MESSAGE = 100
_MAX_REPLY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One object to load."""

    name: str
    path: Path
    optional: frozenset[str]
    """Programs that may be left out when this kernel refuses them."""
    iterators: tuple[str, ...]
    about: Mapping[str, Any]
    """Handed over as it is: JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All that is to be loaded in one go."""

    plans: Sequence[Plan]
    knobs: Mapping[str, int | bytes]
    entries: Mapping[str, Sequence[bytes]]
    """Map → keys to set to 1 before anything is attached."""
    cgroup: str | None
    """Where cgroup programs are attached; None leaves them out."""
    multi: bool = True
    """Probe functions of programs by one link for many, where the kernel can."""


@dataclass(slots=True, kw_only=True)
class Loaded:
    """One object that is loaded and attached, by descriptors."""

    name: str
    maps: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Name → descriptor and max_entries."""
    programs: dict[str, int] = field(default_factory=dict)
    links: list[int] = field(default_factory=list)
    iterators: dict[str, int] = field(default_factory=dict)
    """Name → link descriptor."""
    places: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Variable → descriptor of its section's map, offset, width."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Descriptor of a section's map → bytes."""
    failed: dict[str, NetdiagError] = field(default_factory=dict)
    """Program → why it isn't there; "" = the whole object."""
    about: dict[str, Any] = field(default_factory=dict)


def load(prepare: Callable[[], Job]) -> list[Loaded]:
    """Prepare, load and attach in a child; what `prepare` imports is gone with it, too.

    Programs and objects that this kernel refuses are in `failed`. Raises the error of the first object when none
    could be loaded, and the netdiag error that `prepare` raised.
    """
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    child = os.fork()
    if child == 0:
        here.close()
        _child(there, prepare)
    there.close()
    with here:
        try:
            reply, fds = _receive(here)
        finally:
            os.waitpid(child, 0)
    if isinstance(reply, dict):
        raise _error(*reply["error"])
    loaded = [_from_json(item, fds) for item in reply]
    if loaded and all("" in item.failed for item in loaded):
        raise loaded[0].failed[""]
    return loaded


def _child(channel: socket.socket, prepare: Callable[[], Job]) -> NoReturn:
    status = 1
    try:
        fds: list[int] = []
        reply: Reply
        try:
            reply = [_to_json(item, fds) for item in _load_all(prepare())]
        except NetdiagError as error:
            reply = {"error": _error_to_json(error)}
        _send(channel, reply, fds)
        status = 0
    finally:
        os._exit(status)  # descriptors live on in the parent; freeing libbpf's objects one by one would take longer


def _load_all(job: Job) -> list[Loaded]:
    from netdiag.ebpf.object import BpfObject, Map

    shared: dict[str, Map] = {}
    cgroup_fd = os.open(job.cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if job.cgroup else None
    results, objects = [], []
    for plan in job.plans:
        result = Loaded(name=plan.name, about=dict(plan.about))
        results.append(result)
        try:
            kernel_object = BpfObject(plan.path)
            kernel_object.multi = job.multi
            kernel_object.load(job.knobs, shared, optional=plan.optional, without=frozenset())
        except NetdiagError as error:
            result.failed[""] = error
            continue
        objects.append((kernel_object, result, plan))
        shared.update({name: m for name, m in kernel_object.maps.items() if "." not in name})
    for name, keys in job.entries.items():
        for key in keys if name in shared else ():
            shared[name].update(key, b"\x01")
    for kernel_object, result, plan in objects:
        result.failed.update({p: Unsupported(reason) for p, reason in kernel_object.disabled.items()})
        result.failed.update(kernel_object.attach(cgroup_fd))
        for iterator in plan.iterators:
            if iterator in result.failed:
                continue
            try:
                result.iterators[iterator] = kernel_object.iterator(iterator)
            except NetdiagError as error:
                result.failed[iterator] = error
        result.maps = {m.name: (m.fd, m.max_entries) for m in kernel_object.maps.values()}
        result.programs = kernel_object.programs()
        result.links = kernel_object.links
        result.places, result.sizes = kernel_object.variables()
    return results


def _to_json(item: Loaded, fds: list[int]) -> dict[str, Any]:
    """Return the object with each descriptor replaced by its place in `fds`."""

    def place(fd: int) -> int:
        if fd not in fds:
            fds.append(fd)
        return fds.index(fd)

    return {
        "name": item.name,
        "maps": {name: [place(fd), size] for name, (fd, size) in item.maps.items()},
        "programs": {name: place(fd) for name, fd in item.programs.items()},
        "links": [place(fd) for fd in item.links],
        "iterators": {name: place(fd) for name, fd in item.iterators.items()},
        "places": {name: [place(fd), offset, width] for name, (fd, offset, width) in item.places.items()},
        "sizes": [[place(fd), size] for fd, size in item.sizes.items()],
        "failed": {name: _error_to_json(error) for name, error in item.failed.items()},
        "about": item.about,
    }


def _from_json(item: dict[str, Any], fds: Sequence[int]) -> Loaded:
    return Loaded(
        name=item["name"],
        maps={name: (fds[at], size) for name, (at, size) in item["maps"].items()},
        programs={name: fds[at] for name, at in item["programs"].items()},
        links=[fds[at] for at in item["links"]],
        iterators={name: fds[at] for name, at in item["iterators"].items()},
        places={name: (fds[at], offset, width) for name, (at, offset, width) in item["places"].items()},
        sizes={fds[at]: size for at, size in item["sizes"]},
        failed={name: _error(*value) for name, value in item["failed"].items()},
        about=item["about"],
    )


def _error_to_json(error: NetdiagError) -> list[str | None]:
    return [type(error).__name__, error.message, error.hint]


def _error(kind: str, message: str, hint: str | None) -> NetdiagError:
    known: type[NetdiagError] = getattr(errors, kind, NetdiagError)
    return known(message, hint=hint)


def _send(channel: socket.socket, reply: Reply, fds: Sequence[int]) -> None:
    body = json.dumps(reply).encode()
    channel.sendall(len(body).to_bytes(4, "little") + len(fds).to_bytes(4, "little"))
    for start in range(0, len(fds), _MAX_FDS_PER_MESSAGE):
        socket.send_fds(channel, [b"f"], list(fds[start : start + _MAX_FDS_PER_MESSAGE]))
    channel.sendall(body)


def _receive(channel: socket.socket) -> tuple[Reply, list[int]]:
    head = _exactly(channel, 8)
    length, count = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
    if length > _MAX_REPLY_BYTES:
        raise Unsupported("the loader of the kernel programs sent nonsense")
    fds: list[int] = []
    while len(fds) < count:
        data, received, _, _ = socket.recv_fds(channel, 1, _MAX_FDS_PER_MESSAGE)
        if not data:
            raise Unsupported("the loader of the kernel programs ended early")
        fds += received
    for fd in fds:
        os.set_inheritable(fd, False)
    reply: Reply = json.loads(_exactly(channel, length))
    return reply, fds


def _exactly(channel: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = channel.recv(count - len(data))
        if not more:
            raise Unsupported("the loader of the kernel programs ended early")
        data += more
    return data
