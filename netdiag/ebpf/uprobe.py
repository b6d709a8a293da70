# SPDX-License-Identifier: Apache-2.0
"""Puts loaded programs on functions of a program or library, in one process only. No libbpf needed.

One link for all functions where the kernel has it (uprobe_multi, Linux 6.6), else a perf event for each. Either way
the kernel writes its breakpoints into the memory of that one process: nobody else who uses the file is touched.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from netdiag.ebpf.syscall import bpf
from netdiag.errors import NetdiagError, NotPermitted, Unsupported

__all__ = ["UPROBE_MULTI", "Site", "attach", "close_all", "has_multi"]

UPROBE_MULTI = 48
"""BPF_TRACE_UPROBE_MULTI, include/uapi/linux/bpf.h: must be said when the program is loaded."""

_LINK_CREATE = 28
_MULTI_RETURN = 1
_PERF_EVENT = 41
"""BPF_PERF_EVENT, the attach type of a link on a perf event."""
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_PERF_FLAG_FD_CLOEXEC = 8
_PERF_ATTRIBUTES_BYTES = 112
_AT_ONCE = 32
_UPROBES = "/sys/bus/event_source/devices/uprobe"


class Site(NamedTuple):
    """Where a probe goes."""

    offset: int
    """Bytes from the start of the file."""
    cookie: int
    """What the program is told when it runs there."""


def has_multi(program_fd: int) -> bool:
    """Tell whether this kernel knows uprobe_multi: then a folder in the place of a file is its only complaint."""
    path, one = ctypes.create_string_buffer(b"/"), ctypes.create_string_buffer(8)
    attributes = _multi(program_fd, ctypes.addressof(path), ctypes.addressof(one), ctypes.addressof(one), 1, 0, 0)
    fd = bpf(_LINK_CREATE, attributes)
    if fd >= 0:  # no kernel does that
        os.close(fd)
        return True
    return ctypes.get_errno() == errno.EBADF


def attach(
    program_fd: int, path: str, sites: Sequence[Site], *, pid: int, returns: bool = False, multi: bool = True
) -> list[int]:
    """Put a program on these places of the file at `path` in process `pid`; `returns`: on the return of the functions.

    Returns the descriptors that keep it there; closing them takes the probes away. Raises the netdiag error that
    names the cause.
    """
    if multi:
        return [_attach_multi(program_fd, path, sites, pid, returns=returns)]
    fds: list[int] = []
    try:
        for site in sites:
            fds += _attach_one(program_fd, path, site, pid, returns=returns)
    except NetdiagError:
        for fd in fds:
            os.close(fd)
        raise
    return fds


def close_all(fds: Iterable[int]) -> None:
    """Take probes away: the kernel waits some 50 ms for each, so many are closed at once."""
    left = list(fds)
    while left:
        some, left = left[:_AT_ONCE], left[_AT_ONCE:]
        threads = [threading.Thread(target=os.close, args=(fd,)) for fd in some]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _attach_multi(program_fd: int, path: str, sites: Sequence[Site], pid: int, *, returns: bool) -> int:
    count = len(sites)
    name = ctypes.create_string_buffer(os.fsencode(path))
    offsets = ctypes.create_string_buffer(struct.pack(f"={count}Q", *(site.offset for site in sites)))
    cookies = ctypes.create_string_buffer(struct.pack(f"={count}Q", *(site.cookie for site in sites)))
    places = (ctypes.addressof(name), ctypes.addressof(offsets), ctypes.addressof(cookies))
    fd = bpf(_LINK_CREATE, _multi(program_fd, *places, count, _MULTI_RETURN if returns else 0, pid))
    if fd < 0:
        raise _error(path)
    return fd


def _multi(program_fd: int, path: int, offsets: int, cookies: int, count: int, flags: int, pid: int) -> bytes:
    """Return `union bpf_attr` of a link: program, target, type, flags; then `uprobe_multi`."""
    head = struct.pack("=IIII", program_fd, 0, UPROBE_MULTI, 0)
    return head + struct.pack("=QQQQIIII", path, offsets, 0, cookies, count, flags, pid, 0)


def _attach_one(program_fd: int, path: str, site: Site, pid: int, *, returns: bool) -> list[int]:
    """Return a perf event and its link. `struct perf_event_attr` is in include/uapi/linux/perf_event.h."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    attributes = bytearray(_PERF_ATTRIBUTES_BYTES)
    config = 1 << _return_bit() if returns else 0
    struct.pack_into("=IIQ", attributes, 0, _event_type(), _PERF_ATTRIBUTES_BYTES, config)
    struct.pack_into("=QQ", attributes, 56, ctypes.addressof(name), site.offset)
    buffer = ctypes.create_string_buffer(bytes(attributes), len(attributes))
    libc = ctypes.CDLL(None, use_errno=True)
    event = libc.syscall(_PERF_EVENT_OPEN[platform.machine()], buffer, pid, -1, -1, _PERF_FLAG_FD_CLOEXEC)
    if event < 0:
        raise _error(path)
    link = bpf(_LINK_CREATE, struct.pack("=IIIIQ", program_fd, event, _PERF_EVENT, 0, site.cookie))
    if link < 0:
        error = _error(path)
        os.close(event)
        raise error
    return [link, event]


def _event_type() -> int:
    return int(_setting("type"))


def _return_bit() -> int:
    return int(_setting("format/retprobe").rpartition(":")[2])


def _setting(name: str) -> str:
    try:
        with open(f"{_UPROBES}/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError as error:
        raise Unsupported(
            f"this kernel has no probes on functions of programs: {_UPROBES}: {error.strerror}"
        ) from error


def _error(path: str) -> NetdiagError:
    number = ctypes.get_errno()
    message = f"probing functions of {path}: {os.strerror(number)} ({errno.errorcode.get(number, number)})"
    return NotPermitted(message) if number in (errno.EPERM, errno.EACCES) else Unsupported(message)
