# SPDX-License-Identifier: Apache-2.0
"""One compiled kernel object: open, set knobs, share maps, load, attach.

Maps with the same name in several objects are one map: the first object to load makes it. Links are held by file
descriptor and nothing is pinned, so that the kernel detaches everything when this process ends, however it ends.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from netdiag.ebpf import _libbpf
from netdiag.ebpf._libbpf import OpenOptions, failure, libbpf, log_lines, system_error
from netdiag.ebpf.uprobe import UPROBE_MULTI
from netdiag.errors import NetdiagError

__all__ = ["BpfObject", "Map"]

_BTF_KIND_DATASEC = 15
_BTF_TYPE = struct.Struct("=III")
_SECTION_ENTRY = struct.Struct("=III")
_ON_FUNCTIONS = ("uprobe/", "uretprobe/")
_FAILED_PROGRAM = re.compile(r"prog '(\w+)'")


class Map:
    """A BPF map by its descriptor."""

    def __init__(self, name: str, fd: int, max_entries: int) -> None:
        self.name = name
        self.fd = fd
        self.max_entries = max_entries

    def update(self, key: bytes, value: bytes) -> None:
        """Set the value of a key; raises the netdiag error for a full map or a missing right."""
        if libbpf().bpf_map_update_elem(self.fd, key, value, 0):
            raise system_error(f"setting an entry of the map {self.name}")

    def delete(self, key: bytes) -> None:
        """Remove a key if it is there."""
        libbpf().bpf_map_delete_elem(self.fd, key)


class BpfObject:
    """A kernel object on its way from the file to attached programs."""

    def __init__(self, path: Path) -> None:
        self.name = path.name.removesuffix(".bpf.o")
        self._data = path.read_bytes()
        self._handle: int | None = None
        self.links: list[int] = []
        """Descriptors that keep the programs attached."""
        self.maps: dict[str, Map] = {}
        self.multi = True
        """Load programs for functions of programs for uprobe_multi links; a kernel that has none does not mind."""
        self.disabled: dict[str, str] = {}
        """Programs that this kernel cannot load, with the reason."""

    def load(
        self,
        knobs: Mapping[str, int | bytes],
        shared: Mapping[str, Map],
        *,
        optional: frozenset[str],
        without: frozenset[str],
    ) -> None:
        """Load all programs but `without`; one of `optional` that the kernel refuses is left out and noted.

        `knobs`: name of a `const volatile` variable → its value, as a number or as its bytes.
        Raises the netdiag error that names the cause.
        """
        skipped = set(without)
        while True:
            _libbpf.clear_log()
            self._open(skipped)
            self._set_knobs(knobs)
            self._share(shared)
            code = libbpf().bpf_object__load(self._handle)
            if not code:
                break
            culprit = self._culprit(optional - skipped)
            error = failure(f"loading the kernel programs of '{self.name}'", code)
            self.close()
            if culprit is None:
                raise error
            skipped.add(culprit)
            self.disabled[culprit] = error.message
        for handle in self._each("map"):
            name = _text(libbpf().bpf_map__name(handle))
            self.maps[name] = Map(name, libbpf().bpf_map__fd(handle), libbpf().bpf_map__max_entries(handle))

    def _open(self, skipped: set[str]) -> None:
        options = OpenOptions(sz=ctypes.sizeof(OpenOptions), object_name=self.name.encode())
        self._handle = libbpf().bpf_object__open_mem(self._data, len(self._data), ctypes.byref(options))
        if not self._handle:
            raise system_error(f"opening the kernel object '{self.name}'")
        for program in self._each("program"):
            if _text(libbpf().bpf_program__name(program)) in skipped:
                libbpf().bpf_program__set_autoload(program, False)
            if self.multi and _text(libbpf().bpf_program__section_name(program)).startswith(_ON_FUNCTIONS):
                # libbpf learned the section names of uprobe_multi in 1.3 only
                libbpf().bpf_program__set_expected_attach_type(program, UPROBE_MULTI)

    def _culprit(self, optional: frozenset[str]) -> str | None:
        for line in log_lines():
            found = _FAILED_PROGRAM.search(line)
            if found and found[1] in optional and ("failed" in line or "BEGIN" in line):
                return found[1]
        return None

    def _each(self, what: str) -> Iterator[int]:
        step = getattr(libbpf(), f"bpf_object__next_{what}")
        handle = step(self._handle, None)
        while handle:
            yield handle
            handle = step(self._handle, handle)

    def _map_handle(self, suffix: str) -> int | None:
        return next((m for m in self._each("map") if _text(libbpf().bpf_map__name(m)).endswith(suffix)), None)

    def _set_knobs(self, knobs: Mapping[str, int | bytes]) -> None:
        handle = self._map_handle(".rodata")
        if handle is None:
            return
        size = ctypes.c_size_t()
        start = libbpf().bpf_map__initial_value(handle, ctypes.byref(size))
        for name, (offset, width) in self._variables(".rodata").items():
            if name in knobs:
                knob = knobs[name]
                value = knob.to_bytes(width, "little") if isinstance(knob, int) else knob
                if len(value) != width:
                    raise ValueError(f"knob {name} is {width} bytes wide, not {len(value)}")
                ctypes.memmove(start + offset, value, width)

    def _variables(self, section: str) -> dict[str, tuple[int, int]]:
        """Return offset and width of each variable: libbpf fills them into its copy of the BTF when it opens."""
        btf = libbpf().bpf_object__btf(self._handle)
        number = libbpf().btf__find_by_name_kind(btf, section.encode(), _BTF_KIND_DATASEC)
        if number < 0:
            return {}
        at = libbpf().btf__type_by_id(btf, number)
        _, info, _ = _BTF_TYPE.unpack(ctypes.string_at(at, _BTF_TYPE.size))
        entries = ctypes.string_at(at + _BTF_TYPE.size, (info & 0xFFFF) * _SECTION_ENTRY.size)
        found = {}
        for type_id, offset, width in _SECTION_ENTRY.iter_unpack(entries):
            variable = ctypes.string_at(libbpf().btf__type_by_id(btf, type_id), 4)
            name = libbpf().btf__name_by_offset(btf, int.from_bytes(variable, "little"))
            found[_text(name)] = (offset, width)
        return found

    def _share(self, shared: Mapping[str, Map]) -> None:
        for handle in self._each("map"):
            known = shared.get(_text(libbpf().bpf_map__name(handle)))
            if known is not None:
                libbpf().bpf_map__reuse_fd(handle, known.fd)

    def attach(self, cgroup_fd: int | None) -> dict[str, NetdiagError]:
        """Attach all programs but iterators, samplers and those for functions; return the errors of the failed."""
        failed = {}
        for program in self._each("program"):
            if not libbpf().bpf_program__autoload(program):
                continue
            name = _text(libbpf().bpf_program__name(program))
            section = _text(libbpf().bpf_program__section_name(program))
            if section.startswith(("iter", "syscall", "perf_event", *_ON_FUNCTIONS)):
                continue
            if section.startswith("cgroup"):
                if cgroup_fd is None:
                    continue
                link = libbpf().bpf_program__attach_cgroup(program, cgroup_fd)
            else:
                link = libbpf().bpf_program__attach(program)
            if link:
                self.links.append(int(libbpf().bpf_link__fd(link)))
            else:
                failed[name] = system_error(f"attaching '{name}'")
        return failed

    def iterator(self, name: str) -> int:
        """Return the link descriptor of an iterator program; each read of a new iterator from it is one walk."""
        for program in self._each("program"):
            if _text(libbpf().bpf_program__name(program)) == name:
                link = libbpf().bpf_program__attach_iter(program, None)
                if not link:
                    raise system_error(f"attaching the iterator '{name}'")
                return int(libbpf().bpf_link__fd(link))
        raise KeyError(name)

    def programs(self) -> dict[str, int]:
        """Return the descriptor of each loaded program by name."""
        return {
            _text(libbpf().bpf_program__name(p)): int(libbpf().bpf_program__fd(p))
            for p in self._each("program")
            if libbpf().bpf_program__autoload(p)
        }

    def variables(self) -> tuple[dict[str, tuple[int, int, int]], dict[int, int]]:
        """Return name → (descriptor of its section's map, offset, width), and that descriptor → bytes."""
        places: dict[str, tuple[int, int, int]] = {}
        sizes: dict[int, int] = {}
        for section in (".bss", ".data"):
            handle = self._map_handle(section)
            if handle is None:
                continue
            size = ctypes.c_size_t()
            libbpf().bpf_map__initial_value(handle, ctypes.byref(size))
            fd = int(libbpf().bpf_map__fd(handle))
            sizes[fd] = size.value
            for name, (offset, width) in self._variables(section).items():
                places[name] = (fd, offset, width)
        return places, sizes

    def close(self) -> None:
        """Free libbpf's side of an object that was not loaded; a loaded one goes with the process, which is faster."""
        if self._handle:
            libbpf().bpf_object__close(self._handle)
            self._handle = None


def _text(value: bytes) -> str:
    return value.decode("ascii", "replace")
