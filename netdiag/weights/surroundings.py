# SPDX-License-Identifier: Apache-2.0
"""What the machine says of the files that were loaded: place, header, what of them is in memory, memory's limits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from netdiag.weights.headers import BadHeaderError, Header, read_header
from netdiag.weights.model import File, Load
from netdiag.weights.mounts import Mounts
from netdiag.weights.residency import residency

__all__ = ["LEAST_BYTES", "Memory", "enrich", "memory_of"]

LEAST_BYTES = 1 << 20
"""Smaller files are no weights, and are not looked at."""
_MOST_FILES = 64
_MOST_TENSORS = 4096
_LIMITLESS = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What may be kept in memory."""

    total: int | None
    available: int | None
    limit: int | None
    """Of the cgroup, the lowest one on the way up; None = there is none."""


def enrich(load: Load, candidates: Sequence[str] = ()) -> Load:
    """Return the load with what this machine says of its files now; `candidates`: paths that they may have."""
    mounts = Mounts.read()
    known = _inodes(candidates)
    large = [file for file in load.files if file.size >= LEAST_BYTES][:_MOST_FILES]
    return replace(load, files=tuple(_enriched(file, mounts, known) for file in large))


def _inodes(paths: Sequence[str]) -> dict[tuple[int, int], str]:
    found = {}
    for path in paths:
        try:
            status = Path(path).stat()
        except (OSError, ValueError):
            continue
        found[(os.major(status.st_dev) << 20 | os.minor(status.st_dev), status.st_ino)] = str(Path(path).absolute())
    return found


def _enriched(file: File, mounts: Mounts, known: Mapping[tuple[int, int], str]) -> File:
    if not file.watched:
        file = replace(file, mount=mounts.of_path(file.path))
        here = _inodes((file.path,)).get((file.device, file.inode))
        return _looked_into(file) if here else replace(file, replaced=Path(file.path).exists())
    path, mount = mounts.locate(file.device, file.path, file.inode) if file.whole_path else (None, None)
    path = path or known.get((file.device, file.inode))
    if mount is None:
        mount = mounts.locate(file.device, "/", 0)[1]
    if path is None:
        return replace(file, mount=mount, replaced=file.whole_path and _exists(file, mount))
    file = replace(file, path=path, whole_path=True, mount=mount)
    return _looked_into(file)


def _exists(file: File, mount: Any) -> bool:
    """Tell whether the name leads to something else now."""
    return bool(mount and mount.point and Path(mount.point.rstrip("/") + file.path).exists())


def _looked_into(file: File) -> File:
    header: Header | None = None
    trouble = None
    try:
        header = read_header(file.path)
    except BadHeaderError as error:
        trouble = str(error)
    except OSError as error:
        return replace(file, trouble=f"not readable: {error.strerror}")
    try:
        fd = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return file
    try:
        whole = residency(fd)
        tensors = tuple(_tensors(fd, header)) if header else ()
    finally:
        os.close(fd)
    return replace(
        file,
        format=header.format if header else ("safetensors" if trouble else None),
        tensors=tensors,
        trouble=trouble,
        cached_after=min(whole.cached, file.size) if whole else file.cached_after,
        evicted=whole.recently_evicted if whole else None,
    )


def _tensors(fd: int, header: Header) -> list[dict[str, Any]]:
    rows = []
    for tensor in header.tensors[:_MOST_TENSORS]:
        held = residency(fd, tensor.offset, tensor.size) if tensor.size else None
        rows.append(
            {
                "name": tensor.name,
                "dtype": tensor.dtype,
                "shape": list(tensor.shape),
                "offset": tensor.offset,
                "bytes": tensor.size,
                "resident": min(held.cached / tensor.size, 1.0) if held else None,
            }
        )
    return rows


def memory_of(pid: int | None = None) -> Memory:
    """Return the machine's memory and the limit of a process's cgroup (this one's without `pid`)."""
    values = {}
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(":")
            values[name] = int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        values = {}
    return Memory(total=values.get("MemTotal"), available=values.get("MemAvailable"), limit=_limit(pid))


def _limit(pid: int | None) -> int | None:
    limits = []
    try:
        lines = Path(f"/proc/{pid or 'self'}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, path = line.split(":", 2)
        for root, name in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
            if (number == "0") != (name == "memory.max") or (number != "0" and "memory" not in controllers.split(",")):
                continue
            folder = Path(root + path)
            while str(folder).startswith(root):
                with contextlib.suppress(OSError, ValueError):  # no limit, or not to be seen
                    limits.append(int((folder / name).read_text(encoding="ascii")))
                folder = folder.parent
    return min((one for one in limits if one < _LIMITLESS), default=None)
