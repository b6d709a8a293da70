# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of a process: its programs and their run time, its maps, its memory."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MemoryWatch", "Times", "kernel_memory", "map_id", "map_size", "peak_rss", "program_ids", "program_times"]

_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
_PROG_BY_ID, _MAP_BY_ID, _INFO = 13, 14, 15
_MAP_NAME = slice(24, 40)
"""`name` in struct bpf_map_info (include/uapi/linux/bpf.h)."""
_PROGRAM_NAME = slice(64, 80)
"""`name` in struct bpf_prog_info."""
_RUN_TIME = struct.Struct("=QQ")
_RUN_TIME_OFFSET = 192
"""`run_time_ns` and `run_cnt` in struct bpf_prog_info."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What programs ran: nanoseconds and runs."""

    ns: int
    runs: int


def _bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(_BPF, command, buffer, len(attributes)))
    if result < 0:
        raise OSError(ctypes.get_errno(), "bpf(2)")
    return result


def _info(by_id: int, number: int) -> bytes:
    fd = _bpf(by_id, struct.pack("=III", number, 0, 0))
    try:
        info = ctypes.create_string_buffer(256)
        _bpf(_INFO, struct.pack("=IIQ", fd, 232, ctypes.addressof(info)))
        return info.raw
    finally:
        os.close(fd)


def _descriptors(pid: int) -> list[dict[str, str]]:
    """Return what /proc/PID/fdinfo says of each descriptor of the process."""
    found = []
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        found.append({name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)})
    return found


def program_ids(pid: int) -> set[int]:
    """Return the ids of the programs that the process holds."""
    return {int(about["prog_id"]) for about in _descriptors(pid) if "prog_id" in about}


def program_times(ids: set[int], *, without: frozenset[str] = frozenset(), only: frozenset[str] | None = None) -> Times:
    """Return the sum over all programs, those but some, or some; counted only while the kernel's statistics are on."""
    abouts = {number: _info(_PROG_BY_ID, number) for number in ids}
    names = {number: about[_PROGRAM_NAME].rstrip(b"\0").decode() for number, about in abouts.items()}
    chosen = {number for number, name in names.items() if name not in without and (only is None or name in only)}
    named = [abouts[number] for number in chosen]
    pairs = [_RUN_TIME.unpack_from(about, _RUN_TIME_OFFSET) for about in named]
    return Times(ns=sum(ns for ns, _ in pairs), runs=sum(runs for _, runs in pairs))


def map_id(pid: int, name: str) -> int:
    """Return the id of the process's map with that name (its first 15 characters)."""
    for about in _descriptors(pid):
        if "map_id" in about:
            number = int(about["map_id"])
            if _info(_MAP_BY_ID, number)[_MAP_NAME].rstrip(b"\0").decode() == name[:15]:
                return number
    raise KeyError(name)


def map_size(number: int) -> int:
    """Return max_entries of the map with that id: the bytes of a ring."""
    return int.from_bytes(_info(_MAP_BY_ID, number)[16:20], "little")


def kernel_memory(pid: int) -> int:
    """Return the bytes of kernel memory that the process's maps and programs take: `memlock` of fdinfo."""
    each = {}
    for about in _descriptors(pid):
        for key in ("map_id", "prog_id"):
            if key in about and "memlock" in about:
                each[(key, about[key])] = int(about["memlock"])
    return sum(each.values())


def peak_rss(pid: int) -> int:
    """Return VmHWM in bytes: the most memory that the process ever had resident."""
    return _status(pid, "VmHWM") * 1024


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise KeyError(name)


class MemoryWatch:
    """Looks every few milliseconds at a process and its children: the peak of the sum of their shares (PSS)."""

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.is_set():
            self.peak = max(self.peak, sum(_pss(pid) for pid in _tree(self._pid)))
            time.sleep(0.005)


def _tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in _tree(int(child)))]


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
