# SPDX-License-Identifier: Apache-2.0
"""The network of an emulator on two TUN devices: `… -m netdiag.route.lab.wire FILE SEED`.

Both devices, `ndr0` at the client's end and `ndr1` at the server's, appear in the namespace that it is started in;
whoever started it moves the second one. It prints `ready` when they exist, and runs until SIGTERM.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import signal
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

from netdiag.lab.router import IFF_NO_PI, IFF_TUN, SPIN_NS, TUNSETIFF, drain, send
from netdiag.route.lab.emulator import Emulator
from netdiag.route.lab.lifeline import end_with_starter
from netdiag.route.lab.topology import load

__all__ = ["DEVICES", "Wire", "main", "open_device"]

DEVICES = ("ndr0", "ndr1")


def open_device(name: str) -> int:
    """Return a descriptor of a new TUN device in this namespace."""
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return tun


class Wire:
    """Reads both devices, asks the emulator, and writes each packet when it is due."""

    def __init__(self, devices: tuple[int, int], emulator: Emulator) -> None:
        self.devices = devices
        self.emulator = emulator
        self._waiting: list[tuple[int, int, int, bytes]] = []
        """(due, order, side, packet)."""
        self._order = 0

    def step(self) -> None:
        """Wait until a packet comes or is due, take in what came and send on what is due."""
        left_ns = self._waiting[0][0] - time.monotonic_ns() - SPIN_NS if self._waiting else 1_000_000_000
        ready, _, _ = select.select(self.devices, [], [], max(0.0, left_ns / 1e9))
        now = time.monotonic_ns()
        for tun in ready:
            side = self.devices.index(tun)
            for packet in drain(tun):
                for delivery in self.emulator.accept(side, packet, now):
                    self._order += 1
                    entry = (now + delivery.delay_ns, self._order, delivery.side, delivery.packet)
                    heapq.heappush(self._waiting, entry)
        while self._waiting and self._waiting[0][0] <= time.monotonic_ns():
            _, _, side, packet = heapq.heappop(self._waiting)
            send(self.devices[side], packet)


def main() -> None:
    """Make both devices and be the network."""
    path, seed = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    end_with_starter()
    emulator = Emulator(load(Path(path)), int(seed) or random.SystemRandom().getrandbits(32))
    Path("/proc/self/timerslack_ns").write_text("1")  # else sleeps end up to 50 us late
    with suppress(OSError):  # where it may not: on a busy machine the network would be late, and seem slow
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    devices = (open_device(DEVICES[0]), open_device(DEVICES[1]))
    print("ready", flush=True)  # noqa: T201 - whoever started it waits for this line
    wire = Wire(devices, emulator)
    while True:
        wire.step()


if __name__ == "__main__":
    main()
