# SPDX-License-Identifier: Apache-2.0
"""The sum that explains the time of a load: parts that add up to the life of the thread that loads, and the rest.

What a thread waited for is measured at every switch. What it did while it ran is a share of samples of its measured
time on a processor, so those parts have bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from netdiag.weights.model import Load, Thread

__all__ = ["LEAST_SAMPLES", "Identity", "Part", "identity"]

LEAST_SAMPLES = 20
"""With fewer, time on a processor stays one part."""
_Z = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One addend."""

    name: str
    """user, fault-cpu, fault-blocked, read-cpu, read-blocked, populate-cpu, populate-blocked, driver-cpu,
    driver-blocked, kernel-cpu, kernel-blocked, cpu (not told apart), system-cpu and blocked (in the kernel, by /proc,
    not told apart), waiting-for-processor, asleep, gpu-copies,
    rest."""
    ms: float
    share: float | None
    margin_ms: float | None = None
    """Half of the 95 % interval; None where the time is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose time it is and where it went."""

    thread: Thread
    parts: tuple[Part, ...]
    """All of them, rest included: they add up to `wall_ms`."""
    wall_ms: float

    def ms(self, *names: str) -> float:
        """Return the sum of these parts; a part that is not there took no time that could be told apart."""
        return sum(part.ms for part in self.parts if part.name in names)

    @property
    def split(self) -> bool:
        """Whether time on a processor could be told apart."""
        return all(part.name != "cpu" for part in self.parts)


_CPU = {
    "user": "user",
    "fault": "fault-cpu",
    "read": "read-cpu",
    "populate": "populate-cpu",
    "ioctl": "driver-cpu",
    "other": "kernel-cpu",
    "system": "system-cpu",
}
_BLOCKED = {
    "fault": "fault-blocked",
    "read": "read-blocked",
    "populate": "populate-blocked",
    "ioctl": "driver-blocked",
    "other": "kernel-blocked",
    "unknown": "blocked",
}


def identity(load: Load) -> Identity | None:
    """Return the identity of the thread that brings most; None where no thread was seen."""
    if not load.threads:
        return None
    thread = load.threads[0]
    wall = thread.wall_ms
    parts: list[tuple[str, float, float | None]] = []
    total = sum(thread.samples.values())
    if total >= LEAST_SAMPLES:
        for name in thread.samples:
            share = thread.samples[name] / total
            margin = _Z * math.sqrt(max(share * (1 - share), 1 / total / 4) / total)
            parts.append((_CPU[name], thread.run_ms * share, thread.run_ms * margin))
    else:
        parts.append(("cpu", thread.run_ms, None))
    off = sum(thread.blocked_ms.values()) + thread.slept_ms
    parts += [(_BLOCKED[name], ms, _margin(ms, off, thread.looks)) for name, ms in thread.blocked_ms.items()]
    parts += [("gpu-copies", thread.copying_ms, None), ("waiting-for-processor", thread.ready_ms, None)]
    parts += [("asleep", thread.slept_ms, _margin(thread.slept_ms, off, thread.looks))]
    rest = wall - sum(ms for _, ms, _ in parts)
    parts.append(("rest", rest, None))
    return Identity(
        thread=thread,
        wall_ms=wall,
        parts=tuple(
            Part(name=name, ms=ms, share=ms / wall if wall > 0 else None, margin_ms=margin)
            for name, ms, margin in parts
            if ms or name in ("user", "fault-blocked", "read-blocked", "rest", *_MEASURED[thread.looks is None])
        ),
    )


_MEASURED = {True: ("fault-cpu", "read-cpu"), False: ()}
"""What is shown as 0 where it was looked for and took no time."""


def _margin(ms: float, of_ms: float, looks: int | None) -> float | None:
    """Return half of the 95 % interval of a share that looks found; None where it was measured at every switch."""
    if looks is None or not looks or of_ms <= 0:
        return None
    share = ms / of_ms
    return of_ms * _Z * math.sqrt(max(share * (1 - share), 1 / looks / 4) / looks)
