# SPDX-License-Identifier: Apache-2.0
"""What was measured of a load: frozen dataclasses, facts only. Unknown is None.

Durations are milliseconds, instants milliseconds since the start of the recording, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["CLASSES", "Copies", "File", "Load", "Mount", "Point", "Requests", "Residents", "Thread"]

CLASSES = ("user", "fault", "read", "populate", "ioctl", "other")
"""What a thread can be in the middle of; the order is that of `enum nd_weights_class`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """Where the time of one thread went, from when it was first seen to its end or that of the trace."""

    pid: int
    tid: int
    comm: str
    began_ms: float
    ended_ms: float
    run_ms: float
    """On a processor, by the switches between threads."""
    ready_ms: float
    """Pushed off the processor."""
    blocked_ms: Mapping[str, float]
    """By class: fault, read, populate, ioctl, other."""
    copying_ms: float
    """Inside calls that copy to a GPU; in none of the others."""
    slept_ms: float
    samples: Mapping[str, int]
    """By class: how often a look at the processor found it there; in the tier procfs clock ticks, user and system."""
    read_bytes: int
    device_bytes: int
    reads: int
    minor_faults: int
    major_faults: int
    waits_fault: int
    waits_read: int
    reclaim_ms: float | None = None
    """Time in which it had to free memory first, part of the others; None = not seen."""
    looks: int | None = None
    """How often it was found off the processor by looks at /proc; None: every switch was seen."""

    @property
    def wall_ms(self) -> float:
        """Its life."""
        return self.ended_ms - self.began_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """What was asked of a device, of a FUSE server, or past the page cache (direct), for one file."""

    source: str
    """device, fuse, direct."""
    pid: int | None
    count: int
    bytes: int
    answered: int
    """Requests whose answer was seen."""
    latency_ms: float
    """Of all those."""
    latency_max_ms: float
    depth: float | None
    """How many were under way on average when one began, itself included."""
    sizes: Mapping[str, int]
    """Requests by size: `4k` = up to 4 KiB, …, `1m`, `more`."""
    began_ms: float
    ended_ms: float
    course: tuple[tuple[int, float], ...] = ()
    """(bytes asked, latency in all, ms) at times, cumulative."""

    @property
    def mean_bytes(self) -> float | None:
        """Bytes a request; None without one."""
        return self.bytes / self.count if self.count else None

    @property
    def mean_ms(self) -> float | None:
        """Time a request took; None where no answer was seen."""
        return self.latency_ms / self.answered if self.answered else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """Where a file lies."""

    point: str | None
    kind: str | None
    """Type of the file system, as in /proc/mounts: ext4, nfs4, fuse.gcsfuse, overlay."""
    source: str | None
    readahead_bytes: int | None
    """read_ahead_kb of its device."""
    layer: str | None = None
    """In an overlay: lower, upper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """What one process touched of one file, and what was asked of devices for it by anybody meanwhile."""

    pid: int
    device: int
    inode: int
    path: str
    whole_path: bool
    """False: the folders at its start are not known."""
    size: int
    began_ms: float
    ended_ms: float
    cached_before: int | None
    """Bytes of it in memory before the first touch; None = the kernel does not say."""
    cached_after: int | None
    faults: int
    forward: int
    backward: int
    near: int
    around: int
    around_bytes: int
    around_forward: int
    around_backward: int
    around_near: int
    readahead_waited: int
    readahead_ahead: int
    readahead_backward: int
    readahead_window: int
    """Largest, bytes."""
    gets: int
    get_bytes: int
    gets_backward: int
    thread_changes: int
    samples: int
    requests: tuple[Requests, ...] = ()
    mount: Mount | None = None
    evicted: int | None = None
    """Bytes of it that left memory and are still remembered as such; None = not asked."""
    format: str | None = None
    """safetensors, gguf, torch; None = no file of weights that is known."""
    tensors: tuple[Mapping[str, Any], ...] = ()
    trouble: str | None = None
    """What is wrong with its header."""
    replaced: bool = False
    """Another file has this name now."""
    watched: bool = True
    """False: /proc alone was looked at, and every count of faults, reads and readahead is unknown, whatever it says."""
    mapped: bool | None = None
    came: tuple[int, int, int] = (0, 0, 0)
    """Steps forward, backward, and near of them, of the parts that came into memory between looks."""

    def asked(self, *sources: str) -> tuple[Requests, ...]:
        """Return the requests from these sources."""
        return tuple(one for one in self.requests if one.source in sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Copies from the host's memory to a GPU, as the calls of the driver showed them."""

    count: int
    bytes: int
    took_ms: float
    small: int
    """Of under 256 KiB."""
    from_files: int
    """Bytes whose source is a mapping of a file."""
    from_pinned: int
    from_pageable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Residents:
    """What the memory of one process was made of when it was largest, bytes."""

    pid: int
    anonymous: int
    anonymous_huge: int
    file_huge: int
    nodes: Mapping[int, int] | None = None
    """By NUMA node; None: there is one node, or it may not be read."""
    node: int | None = None
    """Of the processor that it was on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Sums up to an instant."""

    at_ms: float
    device_bytes: int
    read_bytes: int
    faults: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """All of a recording that is about weights."""

    threads: tuple[Thread, ...]
    """The one that loads first."""
    files: tuple[File, ...]
    """By bytes that they brought, most first."""
    span_ms: float
    points: tuple[Point, ...] = ()
    copies: Copies | None = None
    lost: Mapping[str, int] | None = None
    """Records lost, by stream; None = nobody counted, as where the recorder was killed."""
    kernel_ms: float | None = None
    """What the kernel programs of this probe took."""
    recorder_ms: float | None = None
    probes: tuple[Mapping[str, Any], ...] = ()
    tier: str = "light"
    """light (kernel programs), procfs."""
    made_of: tuple[Residents, ...] = ()
    ready_ms: float | None = None
    """When what `--until` named came, since the start; None = not asked, or it did not come."""
    looks_ms: float | None = None
    """Time on a processor that looks at /proc took beside the recorder; None = none were made."""
