# SPDX-License-Identifier: Apache-2.0
"""Files that hold a TLS library or the C library, each looked at once: which functions they have and where probes go.

A file is known by what the kernel knows it by, device and inode, never by its path: containers of one image share it.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from netdiag.ebpf.uprobe import Site
from netdiag.recorder import golang
from netdiag.recorder.functions import COPIES, FREE, HANDSHAKE, NAMES, PLAIN, TLS, Function, Table, tables
from netdiag.recorder.inner import inner_function
from netdiag.symbols import BadObjectError, Elf, Keeps, Place

__all__ = ["Objects", "Probed"]

_MOST = 512
_LEAST_PROGRAM = 1 << 20
"""Bytes of a program or module with a TLS library inside."""
_FOLDERS = (
    f"/usr/lib/{platform.machine()}-linux-gnu",
    f"/lib/{platform.machine()}-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
    "/usr/local/lib",
)
_PLAIN = ("libc.", "libm.", "ld-linux", "libpthread.", "librt.", "libtinfo.", "libselinux.", "libacl.", "libcap.")
"""Libraries that load no others by themselves, as the small tools of a system need them."""


@dataclass(slots=True, kw_only=True, eq=False)
class Probed:
    """One file with functions to probe."""

    fd: int
    """Open, so that it can be probed by /proc/self/fd whatever becomes of its path."""
    path: str
    """As the first process saw it."""
    table: Table
    sites: dict[str, tuple[list[Site], list[Site]]]
    """Probe → places for its programs on entries and on returns."""
    shakes: bool
    """It has functions that make handshakes."""
    cheap: bool
    """The probes on those stand on instructions that the kernel emulates."""
    plaintext: str | None = None
    """How the functions through which plaintext passes were found: symbols, calls (through a function that exported
    ones share), go; None where there are none."""
    plain_cheap: bool = False
    """The probes on those stand on instructions that the kernel emulates, returns of C functions as well."""
    version: str | None = None
    version_sought: bool = False

    @property
    def attach_path(self) -> str:
        """Return a path that leads to the file itself."""
        return f"/proc/self/fd/{self.fd}"

    @property
    def is_sure(self) -> bool:
        """Tell whether the file has the library: of a program whose functions say nothing its texts must."""
        if not self.table.unprobed or not self.table.version:
            return True
        version = self.find_version()
        return version is not None and not version.startswith("build ")

    def find_version(self) -> str | None:
        """Return the library's version, else its build-id; None where it has neither."""
        if not self.version_sought:
            self.version_sought = True
            try:
                elf = Elf(self.fd)
                self.version = elf.version(self.table.version) if self.table.version else None
                self.version = self.version or _build(elf.build_id())
            except (BadObjectError, OSError):
                self.version = None
        return self.version


def _build(number: str | None) -> str | None:
    return f"build {number[:16]}" if number else None


@dataclass(slots=True)
class Objects:
    """All files that were looked at."""

    _tables: tuple[Table, ...] = field(default_factory=tables)
    _known: dict[tuple[int, int, int, int], Probed | None] = field(default_factory=dict)
    _loaders: dict[tuple[int, int, int, int], bool] = field(default_factory=dict)
    probes: frozenset[str] = frozenset({TLS})
    """Whose functions are looked for."""
    denied: set[str] = field(default_factory=set)
    """Libraries that may not be opened."""
    full: bool = False
    """There were more files than are looked at."""

    def __post_init__(self) -> None:
        ordered = sorted(self._tables, key=lambda table: table.unprobed)  # what can be probed first
        self._tables = tuple(t for t in ordered if t.probe in self.probes or (t.plain and PLAIN in self.probes))

    def library(self, places: tuple[str, ...], path: str) -> Probed | None:
        """Look at a mapped file, to which one of `places` leads from here; None when there is nothing to probe."""
        matching = [table for table in self._tables if table.is_file(path)]
        wanted = [table for table in matching if not table.unprobed] or matching
        return self._look(places, path, wanted) if wanted else None

    def program(self, pid: int) -> Probed | None:
        """Look at the program that a process runs; None when no TLS library is in it."""
        place = f"/proc/{pid}/exe"
        try:
            path = os.readlink(place).removesuffix(" (deleted)")
        except OSError:
            return None
        return self._look((place,), path, list(self._tables))

    def opened(self, fd: int) -> Probed | None:
        """Look at an open program, whose descriptor is taken over; None when no TLS library is in it."""
        try:
            path = os.readlink(f"/proc/self/fd/{fd}") if stat.S_ISREG(os.fstat(fd).st_mode) else None
        except OSError:
            path = None
        found = self._look((f"/proc/self/fd/{fd}",), path, list(self._tables)) if path is not None else None
        os.close(fd)
        return found

    def usual(self, pid: int) -> Iterator[Probed]:
        """Yield the libraries that a process would load by their usual names, as its root has them."""
        for table in self._tables:
            for name in table.usual:
                for folder in _FOLDERS:
                    place = f"/proc/{pid}/root{folder}/{name}"
                    found = self._look((place,), f"{folder}/{name}", [table]) if _exists(place) else None
                    if found is not None:
                        yield found
                        break

    def loads_others(self, pid: int) -> bool:
        """Tell whether the program that a process runs may load a TLS library, or look names up itself."""
        try:
            fd = os.open(f"/proc/{pid}/exe", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            key = _key(fd)
            if key not in self._loaders:
                elf = Elf(fd)
                plain = all(name.startswith(_PLAIN) for name in elf.needed())
                self._loaders[key] = not plain or any(map(elf.mentions, ("dlopen", *self._asked())))
            return self._loaders[key]
        except (BadObjectError, OSError):
            return False
        finally:
            os.close(fd)

    def _asked(self) -> tuple[str, ...]:
        return tuple(function.name for table in self._tables if table.probe == NAMES for function in table.functions)

    def _look(self, places: tuple[str, ...], path: str, wanted: list[Table]) -> Probed | None:
        try:
            fd = _open(places)
        except PermissionError:
            if len(self.denied) < _MOST:
                self.denied.add(path)
            return None
        if fd is None:
            return None
        key = _key(fd)
        if key not in self._known:
            if len(self._known) < _MOST:
                self._known[key] = _read(fd, path, wanted, self.probes)
            else:
                self.full = True
        found = self._known.get(key)
        if found is None or found.fd != fd:
            os.close(fd)
        return found


def _exists(path: str) -> bool:
    try:
        os.stat(path)
    except OSError:
        return False
    return True


def _open(places: tuple[str, ...]) -> int | None:
    """Return a descriptor by the first way that leads somewhere; PermissionError when one was barred and none did."""
    barred: PermissionError | None = None
    for place in places:
        try:
            return os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError as error:
            barred = error
        except OSError:
            continue
    if barred is not None:
        raise barred
    return None


def _key(fd: int) -> tuple[int, int, int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _read(fd: int, path: str, wanted: list[Table], probes: frozenset[str]) -> Probed | None:
    try:
        elf = Elf(fd)
        for table in wanted:
            if table.unprobed:
                # what texts decide may be in any program, what a name decides in that file alone
                if os.fstat(fd).st_size >= _LEAST_PROGRAM if table.version else len(wanted) == 1:
                    return Probed(fd=fd, path=path, table=table, sites={}, shakes=False, cheap=False)
                continue
            found = _functions(elf, table, PurePosixPath(path).name, by_name=len(wanted) == 1)
            if found:
                return _probed(fd, path, table, elf, found, probes)
    except (BadObjectError, OSError):
        return None
    return None


def _functions(elf: Elf, table: Table, name: str, *, by_name: bool) -> dict[str, int]:
    """Return the functions of a library that the file has; a program must show that the library is in it."""
    names = list(dict.fromkeys(function.name for function in (*table.functions, *table.plain)))
    if table.go:
        return {name: span.start for name, span in golang.functions(elf, names).items()}
    if not by_name and table.static:
        return {} if elf.needed() else elf.local(names)
    names += [name for inner in table.inner for name in inner.not_of if name not in names]
    if not by_name and table.inside and not elf.exported([table.inside]):
        return elf.local(names) if name in table.programs else {}
    return elf.exported(names)


def _probed(fd: int, path: str, table: Table, elf: Elf, found: dict[str, int], probes: frozenset[str]) -> Probed | None:
    chosen = table.chosen(found) if table.probe in probes else []
    keyed = (HANDSHAKE, FREE)
    if table.probe in (NAMES, COPIES):  # all arguments are needed: only the very entry has them
        placed = [(f, Place(elf.offset_of(found[f.name]), cheap=False)) for f in chosen]
    else:
        placed = [(f, elf.place(found[f.name], Keeps.FIRST if f.kind in keyed else Keeps.NOTHING)) for f in chosen]
    entries = [Site(place.offset, function.cookie) for function, place in placed]
    returns = [Site(place.offset, function.cookie) for function, place in placed if function.kind != FREE]
    probed = Probed(
        fd=fd,
        path=path,
        table=table,
        sites={table.probe: (entries, returns)},
        shakes=any(function.kind == HANDSHAKE for function in chosen),
        cheap=all(place.cheap for function, place in placed if function.kind in keyed),
    )
    if PLAIN in probes and any(function.name in found for function in table.plain):
        (_place_go if table.go else _place_plain)(probed, elf, found)
    return probed


def _place_plain(probed: Probed, elf: Elf, found: dict[str, int]) -> None:
    """Add the places where plaintext passes through functions of C."""
    wanted: list[tuple[Function, int]] = []
    covered: set[str] = set()
    for inner in probed.table.inner:
        address = inner_function(elf, inner, found)
        if address is not None:
            wanted.append((inner.function, address))
            covered.update(inner.of)
    wanted += [(f, found[f.name]) for f in probed.table.plain if f.name in found and f.name not in covered]
    placed = [(f, elf.place(address, Keeps.ALL if f.returns else Keeps.FIRST)) for f, address in wanted]
    entries = [Site(place.offset, function.cookie) for function, place in placed]
    returns = [Site(place.offset, function.cookie) for function, place in placed if function.returns]
    probed.sites[PLAIN] = (entries, returns)
    probed.plaintext = "calls" if covered else "symbols"
    probed.plain_cheap = all(place.cheap for function, place in placed if function.kind in _OFTEN)


_OFTEN = ("read", "write")


def _place_go(probed: Probed, elf: Elf, found: dict[str, int]) -> None:
    """Add the places where plaintext passes through functions of Go; none where the returns of one can't be found."""
    spans = golang.functions(elf, found)
    sites: list[Site] = []
    for function in probed.table.plain:
        span = spans.get(function.name)
        if span is None:
            continue
        sites.append(Site(elf.place(span.start, Keeps.GO).offset, function.cookie))
        if function.return_cookie is not None:
            sites += [Site(elf.offset_of(at), function.return_cookie) for at in golang.returns(elf, span)]
    probed.sites[PLAIN] = (sites, [])
    probed.plaintext = "go"
