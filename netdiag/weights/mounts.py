# SPDX-License-Identifier: Apache-2.0
"""Where files lie: /proc/self/mountinfo, overlay layers, read-ahead of the device."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from netdiag.weights.model import Mount

__all__ = ["Mounts", "network"]

_NETWORK = ("nfs", "cifs", "smb", "9p", "lustre", "ceph", "glusterfs", "beegfs", "gpfs", "virtiofs", "afs", "fuse")
_LOCAL_FUSE = ("fuseblk", "fusectl")
_ESCAPE = re.compile(r"\\([0-7]{3})")


def network(kind: str | None) -> bool:
    """Tell whether a file system of this type asks somebody else for its data: a server, or a program (FUSE)."""
    return kind is not None and kind.startswith(_NETWORK) and kind not in _LOCAL_FUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    device: int
    root: str
    point: str
    kind: str
    source: str
    layers: tuple[tuple[str, str], ...]
    """Of an overlay: (lower or upper, folder)."""


@dataclass(slots=True)
class Mounts:
    """The mounts that this process sees."""

    entries: list[_Entry] = field(default_factory=list)

    @classmethod
    def read(cls, path: str = "/proc/self/mountinfo") -> Mounts:
        """Return them; none where the file cannot be read."""
        with contextlib.suppress(OSError):
            return cls(list(_parsed(Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines())))
        return cls()

    def locate(self, device: int, inner: str, inode: int) -> tuple[str | None, Mount | None]:
        """Return the path by which this process reaches a file, and its mount.

        `device` and `inner` (path inside the file system) are the kernel's; a path is returned only where it leads
        to that inode, or into an overlay whose layer it is.
        """
        here = [entry for entry in self.entries if entry.device == device]
        best: tuple[str | None, Mount | None] = (None, None)
        for entry in here:
            inside = _below(entry.root, inner)
            if inside is None:
                continue
            path = _joined(entry.point, inside)
            merged = self._merged(path)
            if merged is not None:
                return merged
            mount = self._mount(entry)
            if _is(path, inode):
                return path, mount
            best = (best[0], mount)
        if best[1] is None and here:
            best = (None, self._mount(here[0]))
        return best

    def of_path(self, path: str) -> Mount | None:
        """Return the mount that a path of this process leads into; of an overlay with the layer that holds the file."""
        best: _Entry | None = None
        for entry in self.entries:  # of mounts on top of each other the last one counts
            if _below(entry.point, path) is not None and (best is None or len(entry.point) >= len(best.point)):
                best = entry
        if best is None:
            return None
        inside = _below(best.point, path) or "/"
        layer = next(
            (layer for layer, folder in sorted(best.layers, reverse=True) if Path(_joined(folder, inside)).exists()),
            None,
        )
        return self._mount(best, layer=layer)

    def _merged(self, path: str) -> tuple[str, Mount] | None:
        """Return the path in an overlay of which a layer holds the file."""
        for entry in self.entries:
            for layer, folder in entry.layers:
                inside = _below(folder, path)
                if inside is not None:
                    merged = _joined(entry.point, inside)
                    if Path(merged).exists():
                        return merged, self._mount(entry, layer=layer)
        return None

    def _mount(self, entry: _Entry, layer: str | None = None) -> Mount:
        return Mount(
            point=entry.point,
            kind=entry.kind,
            source=entry.source,
            readahead_bytes=_readahead(entry.device),
            layer=layer,
        )


def _parsed(lines: Iterable[str]) -> Iterable[_Entry]:
    for line in lines:
        fields = line.split(" ")
        if "-" not in fields[6:]:
            continue
        dash = fields.index("-", 6)
        if len(fields) < dash + 3:
            continue
        major, _, minor = fields[2].partition(":")
        if not (major.isdigit() and minor.isdigit()):
            continue
        options = fields[dash + 3] if len(fields) > dash + 3 else ""
        yield _Entry(
            device=int(major) << 20 | int(minor),
            root=_unescaped(fields[3]),
            point=_unescaped(fields[4]),
            kind=fields[dash + 1],
            source=_unescaped(fields[dash + 2]),
            layers=tuple(_layers(options)) if fields[dash + 1] == "overlay" else (),
        )


def _layers(options: str) -> Iterable[tuple[str, str]]:
    for option in options.split(","):
        name, _, value = option.partition("=")
        if name.rstrip("+") in ("lowerdir", "upperdir"):
            for folder in _unescaped(value).split(":"):
                if folder:
                    yield ("lower" if name.startswith("lower") else "upper"), folder


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def _below(folder: str, path: str) -> str | None:
    """Return the path inside a folder; None where it is not inside."""
    if folder == "/":
        return path
    if path == folder or path.startswith(f"{folder}/"):
        return path[len(folder) :] or "/"
    return None


def _joined(point: str, inside: str) -> str:
    return inside if point == "/" else point + inside


def _is(path: str, inode: int) -> bool:
    try:
        return Path(path).stat().st_ino == inode
    except (OSError, ValueError):
        return False


def _readahead(device: int) -> int | None:
    name = f"/sys/class/bdi/{device >> 20}:{device & 0xFFFFF}/read_ahead_kb"
    try:
        return int(Path(name).read_text(encoding="ascii")) * 1024
    except (OSError, ValueError):
        return None
