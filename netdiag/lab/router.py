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

__all__ = ["main"]

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


def route(devices: tuple[int, int], delay_ns: int, loss: float, source: random.Random) -> None:
    """Carry packets both ways, each `delay_ns` late, dropping a share of them."""
    waiting: collections.deque[tuple[int, int, bytes]] = collections.deque()  # same delay for all: due in order
    other = {devices[0]: devices[1], devices[1]: devices[0]}
    while True:
        left_ns = waiting[0][0] - time.monotonic_ns() - SPIN_NS if waiting else 1_000_000_000
        ready, _, _ = select.select(devices, [], [], max(0.0, left_ns / 1e9))
        now = time.monotonic_ns()
        for tun in ready:
            for packet in drain(tun):
                if source.random() >= loss:
                    waiting.append((now + delay_ns, other[tun], packet))
        while waiting and waiting[0][0] <= time.monotonic_ns():
            _, target, packet = waiting.popleft()
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
    route(devices, int(float(delay_ms) * 1e6), float(loss), random.Random(int(seed)))


if __name__ == "__main__":
    main()
