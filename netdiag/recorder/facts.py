# SPDX-License-Identifier: Apache-2.0
"""What user space knows and the kernel programs do not say: clocks, the host, processes, refused accepts."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Any

__all__ = ["clock_pair", "clock_step_ns", "host", "monotonic_ns", "overflows", "rfc3339"]

_NS = 1_000_000_000


def monotonic_ns() -> int:
    """Return CLOCK_MONOTONIC as kernel programs read it: a time namespace moves only what its processes read."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - _moved_ns()


@cache
def _moved_ns() -> int:
    """Return by how much this process's time namespace moves CLOCK_MONOTONIC: time_namespaces(7)."""
    try:
        with open("/proc/self/timens_offsets", encoding="ascii") as file:
            lines = [line.split() for line in file]
        return next((int(line[1]) * _NS + int(line[2]) for line in lines if line[0] in {"monotonic", "1"}), 0)
    except (OSError, ValueError, LookupError):  # a kernel without time namespaces
        return 0


def clock_pair() -> dict[str, int]:
    """Return the three clocks, read together, in nanoseconds."""
    return {
        "monotonic_ns": monotonic_ns(),
        "realtime_ns": time.clock_gettime_ns(time.CLOCK_REALTIME),
        "boottime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    }


def clock_step_ns(first: dict[str, int], now: dict[str, int]) -> int:
    """Return by how much wall clock or boot clock moved against CLOCK_MONOTONIC since `first`: a step or a suspend."""
    moved = now["monotonic_ns"] - first["monotonic_ns"]
    return max(
        abs(now["realtime_ns"] - first["realtime_ns"] - moved), abs(now["boottime_ns"] - first["boottime_ns"] - moved)
    )


def rfc3339(realtime_ns: int) -> str:
    """Return an instant in UTC with nine digits."""
    seconds, rest = divmod(realtime_ns, _NS)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


def host() -> dict[str, Any]:
    """Return kernel release, processor, whether there is BTF, and how many CPUs are online."""
    system = os.uname()
    return {
        "kernel": system.release,
        "arch": system.machine,
        "btf": os.path.exists("/sys/kernel/btf/vmlinux"),
        "cpus": os.cpu_count(),
        "hz": None,
    }


def overflows() -> dict[str, int] | None:
    """Return how often this namespace refused connections since boot because an accept queue was full.

    ListenOverflows and ListenDrops of /proc/net/netstat (net/ipv4/proc.c); None where they cannot be read.
    """
    try:
        with open("/proc/net/netstat", encoding="ascii") as file:
            lines = [line.split() for line in file if line.startswith("TcpExt:")]
        names, values = lines[0], lines[1]
        counters = dict(zip(names[1:], map(int, values[1:]), strict=True))
        return {"overflows": counters["ListenOverflows"], "drops": counters["ListenDrops"]}
    except (OSError, ValueError, LookupError):
        return None
