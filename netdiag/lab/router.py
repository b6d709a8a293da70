# SPDX-License-Identifier: Apache-2.0
"""A router between two namespaces that holds every packet back: `… -m netdiag.lab.router NS NS DELAY_MS LOSS SEED`.

The kernel's own delay queue is a module that many machines lack; a TUN device in each namespace and this loop do the
same to well under a millisecond. It prints `ready` when both devices exist, and runs until SIGTERM.
"""

from __future__ import annotations

import collections
import ctypes
import fcntl
import os
import random
import select
import signal
import struct
import sys
import time
from pathlib import Path

__all__ = ["Router", "main"]

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


class Router:
    """Carries packets between two devices, each `delay_ns` late, and drops a share of them."""

    def __init__(self, devices: tuple[int, int], delay_ns: int, loss: float, source: random.Random) -> None:
        self.devices = devices
        self.delay_ns = delay_ns
        self.loss = loss
        self._source = source
        self._waiting: collections.deque[tuple[int, int, bytes]] = collections.deque()
        """(due, device, packet); all wait equally long, so they are due in order."""

    def step(self) -> None:
        """Wait until a packet comes or is due, take in what came and send on what is due."""
        left_ns = self._waiting[0][0] - time.monotonic_ns() - SPIN_NS if self._waiting else 1_000_000_000
        ready, _, _ = select.select(self.devices, [], [], max(0.0, left_ns / 1e9))
        due = time.monotonic_ns() + self.delay_ns
        for tun in ready:
            other = self.devices[1] if tun == self.devices[0] else self.devices[0]
            self._waiting.extend((due, other, packet) for packet in drain(tun) if self._source.random() >= self.loss)
        while self._waiting and self._waiting[0][0] <= time.monotonic_ns():
            _, target, packet = self._waiting.popleft()
            send(target, packet)


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
    first, second, delay_ms, loss, seed = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    devices = (device(first), device(second))
    print("ready", flush=True)
    router = Router(devices, int(float(delay_ms) * 1e6), float(loss), random.Random(int(seed)))
    while True:
        router.step()


if __name__ == "__main__":
    main()
