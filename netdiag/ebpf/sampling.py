# SPDX-License-Identifier: Apache-2.0
"""Runs a kernel program some hundred times a second on every processor, to see what threads do while they run."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct

from netdiag.ebpf.syscall import bpf

__all__ = ["PERIOD_NS", "SAMPLED", "Sampling"]

SAMPLED = "weights_sample"
"""The program that is run."""
PERIOD_NS = 2_003_001
"""Between two looks; no round number, so that nothing that beats in time with it is always or never seen."""

_LINK_CREATE = 28
_PERF_EVENT = 41
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_CLOEXEC = 8
_ATTRIBUTES_BYTES = 112
_SOFTWARE, _CPU_CLOCK = 1, 0


class Sampling:
    """A clock of its own on each processor: needs no counters of the hardware, so it works in virtual machines."""

    def __init__(self, program_fd: int) -> None:
        self._program = program_fd
        self._fds: list[int] = []
        self.reason: str | None = None
        """Why nothing is sampled; None while all is well."""

    def start(self) -> None:
        """Begin on every processor that is on; where that is refused `reason` says why."""
        attributes = bytearray(_ATTRIBUTES_BYTES)  # struct perf_event_attr, include/uapi/linux/perf_event.h
        struct.pack_into("=IIQQ", attributes, 0, _SOFTWARE, _ATTRIBUTES_BYTES, _CPU_CLOCK, PERIOD_NS)
        buffer = ctypes.create_string_buffer(bytes(attributes), len(attributes))
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            processors = _online()
        except (OSError, ValueError):  # a container without /sys
            self.reason = "which processors there are cannot be read"
            return
        for cpu in processors:
            number = _PERF_EVENT_OPEN[platform.machine()]
            event = int(libc.syscall(number, buffer, -1, cpu, -1, _CLOEXEC))
            if event < 0:
                self._fail("a clock on each processor")
                return
            self._fds.append(event)
            link = bpf(_LINK_CREATE, struct.pack("=IIIIQ", self._program, event, _PERF_EVENT, 0, 0))
            if link < 0:
                self._fail("a program on the clock of each processor")
                return
            self._fds.append(link)

    def _fail(self, what: str) -> None:
        self.reason = f"{what}: {os.strerror(ctypes.get_errno())}"
        self.close()

    def close(self) -> None:
        """End it."""
        while self._fds:
            with contextlib.suppress(OSError):
                os.close(self._fds.pop())


def _online() -> list[int]:
    with open("/sys/devices/system/cpu/online", encoding="ascii") as file:
        text = file.read().strip()
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus
