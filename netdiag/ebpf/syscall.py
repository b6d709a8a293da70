# SPDX-License-Identifier: Apache-2.0
"""The bpf(2) calls that are left once everything is loaded: walks, live variables, cost. No libbpf needed."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import struct
from collections.abc import Callable, Iterator, Mapping

from netdiag.errors import NetdiagError, Unsupported

__all__ = ["Variables", "bpf", "enable_stats", "in_netns", "program_cost", "walk"]

_NUMBER = {"x86_64": 321, "aarch64": 280}
_OBJ_GET_INFO_BY_FD, _ENABLE_STATS, _ITER_CREATE = 15, 32, 33
_CLONE_NEWNET = 0x40000000
_READ_BYTES = 4096
_INFO_BYTES = 224
_RUN_TIME = struct.Struct("=QQ")
_RUN_TIME_OFFSET = 192
"""`run_time_ns` and `run_cnt` of `struct bpf_prog_info` (include/uapi/linux/bpf.h)."""
_PAGE = mmap.PAGESIZE


def bpf(command: int, attributes: bytes) -> int:
    """Make the system call bpf; return its result, -1 with errno set when it failed."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return int(libc.syscall(_NUMBER[platform.machine()], command, buffer, len(attributes)))


def _error(what: str) -> NetdiagError:
    number = ctypes.get_errno()
    return Unsupported(f"{what}: {os.strerror(number)} ({errno.errorcode.get(number, number)})")


def walk(link_fd: int, between: Callable[[], None] | None = None) -> None:
    """Run the iterator once, from start to end, in this process's network namespace.

    `between` is called now and then on the way: there may be more to tell than the rings hold.
    """
    fd = bpf(_ITER_CREATE, struct.pack("=II", link_fd, 0))
    if fd < 0:
        raise _error("starting a walk over sockets")
    try:
        while True:
            try:
                if not os.read(fd, _READ_BYTES):
                    return
            except BlockingIOError:  # after a million objects the kernel asks for another turn
                continue
            if between is not None:
                between()
    finally:
        os.close(fd)


@contextlib.contextmanager
def in_netns(path: str) -> Iterator[bool]:
    """Be in the network namespace at `path` meanwhile; yields False where that is not possible or not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        os.close(home)
        yield False
        return
    try:
        entered = libc.setns(there, _CLONE_NEWNET) == 0
        yield entered
        if entered and libc.setns(home, _CLONE_NEWNET):
            raise _error("returning to the own network namespace")
    finally:
        os.close(there)
        os.close(home)


def enable_stats() -> int | None:
    """Let the kernel time its programs while the returned descriptor is open; None where it may not."""
    fd = bpf(_ENABLE_STATS, struct.pack("=I", 0))
    return fd if fd >= 0 else None


def program_cost(programs: Mapping[str, int]) -> list[dict[str, int | str]]:
    """Return runs and nanoseconds of each program since it was loaded (0 while statistics are off)."""
    costs: list[dict[str, int | str]] = []
    for name, fd in programs.items():
        info = ctypes.create_string_buffer(_INFO_BYTES)
        if bpf(_OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, _INFO_BYTES, ctypes.addressof(info))) < 0:
            continue
        nanoseconds, runs = _RUN_TIME.unpack_from(info.raw, _RUN_TIME_OFFSET)
        costs.append({"name": name, "runs": runs, "ns": nanoseconds})
    return costs


class Variables:
    """The live global variables of one loaded object, in memory shared with the kernel."""

    def __init__(self, places: Mapping[str, tuple[int, int, int]], sizes: Mapping[int, int]) -> None:
        """`places`: name → (descriptor of the section's map, offset, width); `sizes`: that descriptor → bytes."""
        self._sections = {
            fd: memoryview(mmap.mmap(fd, (size + _PAGE - 1) // _PAGE * _PAGE)) for fd, size in sizes.items()
        }
        self._places = places

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def get(self, name: str) -> int:
        """Return a variable's value, read as an unsigned little-endian number."""
        return int.from_bytes(self._view(name), "little")

    def set(self, name: str, value: int) -> None:
        """Set a variable."""
        view = self._view(name)
        view[:] = value.to_bytes(len(view), "little")

    def _view(self, name: str) -> memoryview:
        fd, offset, width = self._places[name]
        return self._sections[fd][offset : offset + width]
