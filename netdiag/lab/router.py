# SPDX-License-Identifier: Apache-2.0
"""A router between two namespaces that holds packets back: `… -m netdiag.lab.router NS NS DELAY_MS LOSS SEED TROUBLES`.

The kernel's own delay queue is a module that many machines lack; a TUN device in each namespace and this loop do the
same to well under a millisecond. It prints `ready` when both devices exist, and runs until SIGTERM.
"""

from __future__ import annotations

import collections
import ctypes
import fcntl
import json
import os
import random
import select
import signal
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Router", "Troubles", "main"]

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET, PR_SET_TIMERSLACK = 0x40000000, 29
SPIN_NS = 400_000
"""Sleeping is late by some hundred µs: the last stretch is waited for with open eyes."""


def device(namespace: str) -> int:
    """Return a descriptor of a new TUN device `lab0` in a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(Path("/run/netns") / namespace, os.O_RDONLY)
    if libc.setns(handle, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(handle)
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"lab0", IFF_TUN | IFF_NO_PI))
    return tun


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """What befalls all packets, counted from the first one. Times in seconds, 0 = never."""

    every_s: float = 0.0
    """After each time of this length there is an outage or a hold."""
    outage_s: float = 0.0
    """So long everything is lost."""
    hold_s: float = 0.0
    """So long everything is kept, and comes at once at the end."""
    rate_kbit: float = 0.0
    """Each direction carries so many kbit/s; more has to wait."""

    def trouble_ns(self, since_ns: int) -> int:
        """Return how much is left of the trouble that reigns so long after the first packet; 0 where there is none."""
        length = self.outage_s or self.hold_s
        if not self.every_s or not length:
            return 0
        into = since_ns % int((self.every_s + length) * 1e9)
        return max(0, int((self.every_s + length) * 1e9) - into) if into >= int(self.every_s * 1e9) else 0


class Router:
    """Carries packets between two devices, each `delay_ns` late, and drops a share of them."""

    def __init__(
        self,
        devices: tuple[int, int],
        delay_ns: int,
        loss: float,
        source: random.Random,
        troubles: Troubles | None = None,
    ) -> None:
        self.devices = devices
        self.delay_ns = delay_ns
        self.loss = loss
        self.troubles = troubles or Troubles()
        self._source = source
        self._first: int | None = None
        self._free = dict.fromkeys(devices, 0)
        """When the line to each device is free again."""
        self._waiting: dict[int, collections.deque[tuple[int, bytes]]] = {end: collections.deque() for end in devices}
        """Device to (due, packet), in order of time."""

    def step(self) -> None:
        """Wait until a packet comes or is due, take in what came and send on what is due."""
        dues = [waiting[0][0] for waiting in self._waiting.values() if waiting]
        left_ns = min(dues) - time.monotonic_ns() - SPIN_NS if dues else 1_000_000_000
        ready, _, _ = select.select(self.devices, [], [], max(0.0, left_ns / 1e9))
        for tun in ready:
            other = self.devices[1] if tun == self.devices[0] else self.devices[0]
            for packet in drain(tun):
                self._take(other, packet)
        for target, waiting in self._waiting.items():
            while waiting and waiting[0][0] <= time.monotonic_ns():
                send(target, waiting.popleft()[1])

    def _take(self, target: int, packet: bytes) -> None:
        now = time.monotonic_ns()
        self._first = now if self._first is None else self._first
        trouble = self.troubles.trouble_ns(now - self._first)
        if self._source.random() < self.loss or (trouble and self.troubles.outage_s):
            return
        at = now + trouble
        if self.troubles.rate_kbit:
            at = self._free[target] = max(at, self._free[target]) + int(len(packet) * 8e6 / self.troubles.rate_kbit)
        self._waiting[target].append((at + self.delay_ns, packet))


def drain(tun: int) -> list[bytes]:
    """Read what is there, up to 64 packets."""
    packets = []
    for _ in range(64):
        try:
            packets.append(os.read(tun, 65536))
        except OSError:  # nothing more, or the device is not up yet
            break
    return packets


def send(tun: int, packet: bytes) -> None:
    """Deliver one packet; a device that is full or down loses it, as a real one would."""
    try:
        os.write(tun, packet)
    except OSError:
        return


def main() -> None:
    """Make both devices and route."""
    first, second, delay_ms, loss, seed, *rest = sys.argv[1:]
    troubles = Troubles(**json.loads(rest[0])) if rest else Troubles()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    devices = (device(first), device(second))
    print("ready", flush=True)
    router = Router(devices, int(float(delay_ms) * 1e6), float(loss), random.Random(int(seed)), troubles)
    while True:
        router.step()


if __name__ == "__main__":
    main()
