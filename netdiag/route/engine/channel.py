# SPDX-License-Identifier: Apache-2.0
"""What a way of sending offers to the course that uses it, and what all ways share: clocks, counters, control data."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

from netdiag.route.model import Clock, Flow, Ignored, Method, Reply

__all__ = ["Arrival", "Channel", "Sent", "Shot", "Stamps", "Tally", "hop_limit", "kernel_stamp", "source_address"]

SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_MOST_AHEAD_MS = 0.05
"""A kernel stamp may precede our own reading of the clock by this much: the clocks are read one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """A probe to send."""

    number: int
    """Of this probe within the trace, from 0."""
    flow: int
    ttl: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A probe that left."""

    number: int
    at_ns: int
    """CLOCK_MONOTONIC."""
    source_port: int | None = None
    """Where each probe has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A reply that was recognised."""

    number: int
    reply: Reply


@dataclass(slots=True)
class Tally:
    """Counts of what was received and had no effect."""

    mismatched: int = 0
    malformed: int = 0
    foreign: int = 0
    unclaimed: int = 0
    """Errors about our flow that quote too little to say which probe they are about."""

    def ignored(self, duplicates: int, late: int) -> Ignored:
        """Return them as the model holds them."""
        return Ignored(
            duplicates=duplicates,
            mismatched=self.mismatched + self.unclaimed,
            malformed=self.malformed,
            foreign=self.foreign,
            late=late,
        )


class Channel(Interface):
    """One way to send probes to one address."""

    method: Method
    privileged: bool
    single_flow: bool
    tally: Tally

    def send(self, shots: Sequence[Shot]) -> list[Sent]:
        """Send at once; those that could not be sent are missing in the result."""
        ...

    def receive(self, timeout_s: float) -> list[Arrival]:
        """Wait for answers no longer than that and return those that came."""
        ...

    def flows(self) -> tuple[Flow, ...]:
        """Return the flows used so far."""
        ...

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC."""
        ...

    def close(self) -> None:
        """Release every socket."""
        ...


class Stamps:
    """When each probe left, on both clocks, and what a reply's round trip is."""

    def __init__(self) -> None:
        self._sent: dict[int, tuple[int, int]] = {}

    def sent(self, number: int) -> int:
        """Note that a probe leaves now; call it directly before sending."""
        now = (time.monotonic_ns(), time.time_ns())
        self._sent[number] = now
        return now[0]

    def __contains__(self, number: int) -> bool:
        return number in self._sent

    def round_trip(self, number: int, stamp_ns: int | None) -> tuple[float, Clock]:
        """Return milliseconds from sending to the kernel's stamp (CLOCK_REALTIME), or to now where it cannot be right.

        A wall clock that was set meanwhile makes the stamp's difference negative or longer than what really passed.
        """
        monotonic, realtime = self._sent[number]
        passed_ms = (time.monotonic_ns() - monotonic) / 1e6
        if stamp_ns is not None:
            stamped_ms = (stamp_ns - realtime) / 1e6
            if 0 <= stamped_ms <= passed_ms + _MOST_AHEAD_MS:
                return stamped_ms, Clock.KERNEL
        return passed_ms, Clock.USER


def kernel_stamp(control: Iterable[tuple[int, int, bytes]]) -> int | None:
    """Return the receive time stamp among control messages, nanoseconds on CLOCK_REALTIME."""
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS) and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return None


def hop_limit(control: Iterable[tuple[int, int, bytes]]) -> int | None:
    """Return TTL or hop limit among control messages."""
    wanted = {(socket.IPPROTO_IP, socket.IP_TTL), (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT)}
    for level, kind, data in control:
        if (level, kind) in wanted and len(data) >= 4:
            return int(struct.unpack_from("@i", data)[0])
    return None


def source_address(ip: str) -> str | None:
    """Return the address that the system uses towards another one; None where it has no way there. Sends nothing."""
    with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((ip, 9))
        except OSError:
            return None
        return str(sock.getsockname()[0]).partition("%")[0]
