# SPDX-License-Identifier: Apache-2.0
"""Reads the probe manifests: what a probe is, what it attaches to, which streams it writes and what the columns mean.

Standard library only. A manifest holds data, never logic, and no layout: offsets and widths come from BTF.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable

__all__ = ["UNITS", "Attach", "Column", "Probe", "Stream", "derived", "load", "probes"]

_SCHEMA = 1
_T = TypeVar("_T")
_KINDS: Mapping[type, str] = {int: "whole number", str: "text", bool: "true or false", list: "list", dict: "table"}

UNITS = ("instant", "ns", "us", "jiffies", "bytes", "count", "id", "address", "port", "text", "flags", "enum", "errno")
"""What a column may hold. An instant is CLOCK_MONOTONIC in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One member of a record, for people."""

    name: str
    """Name of the struct's member."""
    title: str
    """A few words, for a table's head."""
    help: str
    """One or two sentences."""
    unit: str | None
    """One of UNITS where the member's type does not say it; None = as the type says."""
    display: bool
    """Whether tables for people show it."""
    values: Mapping[int, str]
    """Names of an enum's values or a flag's bits; empty for other columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Records of one kind: one ring buffer, one struct."""

    number: int
    """What the blocks of a recording carry."""
    name: str
    struct: str
    map: str
    """Name of the ring buffer; its counters are named after it, with `_seen` and `_lost`. Empty where there is none."""
    recorded: bool
    """False: the recorder turns these records into facts, they themselves are not kept."""
    to_front: bool
    """The recorder hands these records to a process without privileges, and to no file: `netdiag.recording.pieces`."""
    columns: tuple[Column, ...]
    """In the order of the struct, all of its members."""

    def column(self, name: str) -> Column:
        """Return the column of a member; KeyError when the struct has none of that name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """One program of the object and where it goes."""

    program: str
    """Name of the C function."""
    section: str
    """Section of the object, which says kind and place: `tp_btf/tcp_destroy_sock`, `cgroup/connect4`."""
    required: bool
    """Without it the probe is unavailable; without another one it is partial."""
    gives: str
    """What is not known when it cannot be attached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One kernel object with its streams."""

    name: str
    title: str
    help: str
    object: str
    """Name of the object file without `.bpf.o`."""
    default: bool
    """Whether it runs when nobody names probes."""
    kernel: str
    """Oldest kernel it was made for, `5.12`."""
    capabilities: tuple[str, ...]
    """What the process that loads it needs."""
    streams: tuple[Stream, ...]
    attach: tuple[Attach, ...]


def probes(folder: Path | None = None) -> tuple[Probe, ...]:
    """Return all shipped probes by name; InputUnreadable names the file and key that is wrong.

    The folder also holds other tables of facts: a probe's manifest is one that attaches something.
    """
    documents = [(path, _document(path)) for path in sorted((folder or data_dir("probes")).glob("*.toml"))]
    found = tuple(_probe(document, path) for path, document in documents if "attach" in document)
    made = [stream for path, document in documents if _is_derived(document) for stream in _streams(document, path)]
    numbers = [stream.number for stream in [*(stream for probe in found for stream in probe.streams), *made]]
    if len(set(numbers)) != len(numbers):
        raise InputUnreadable(f"two streams of the probes have one number: {sorted(numbers)}")
    return found


def derived(folder: Path | None = None) -> tuple[Stream, ...]:
    """Return the streams that user space makes of what probes deliver: manifests that attach nothing."""
    documents = [(path, _document(path)) for path in sorted((folder or data_dir("probes")).glob("*.toml"))]
    return tuple(stream for path, document in documents if _is_derived(document) for stream in _streams(document, path))


def _is_derived(document: Mapping[str, Any]) -> bool:
    return "streams" in document and "attach" not in document


def _streams(document: Mapping[str, Any], path: Path) -> tuple[Stream, ...]:
    table = _Table(document, path.name, "")
    table.only("schema", "name", "title", "help", "object", "streams")
    if table.get("schema", int) != _SCHEMA:
        raise table.error("schema", f"is not {_SCHEMA}")
    return tuple(_stream(each) for each in table.tables("streams"))


def load(path: Path) -> Probe:
    """Return the probe that a manifest describes; InputUnreadable names the file and key that is wrong."""
    return _probe(_document(path), path)


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputUnreadable(f"{path}: {error}") from error


def _probe(document: Mapping[str, Any], path: Path) -> Probe:
    table = _Table(document, path.name, "")
    table.only("schema", "name", "title", "help", "object", "default", "kernel", "capabilities", "streams", "attach")
    if table.get("schema", int) != _SCHEMA:
        raise table.error("schema", f"is not {_SCHEMA}")
    return Probe(
        name=table.get("name", str),
        title=table.get("title", str),
        help=table.get("help", str),
        object=table.get("object", str),
        default=table.get("default", bool),
        kernel=table.get("kernel", str),
        capabilities=tuple(table.texts("capabilities")),
        streams=tuple(_stream(each) for each in table.tables("streams")),
        attach=tuple(_attach(each) for each in table.tables("attach")),
    )


def _stream(table: _Table) -> Stream:
    table.only("number", "name", "struct", "map", "recorded", "to_front", "columns")
    columns = table.sub("columns")
    return Stream(
        number=table.get("number", int),
        name=table.get("name", str),
        struct=table.get("struct", str),
        map=table.optional("map", str) or "",
        recorded=table.optional("recorded", bool) is not False,
        to_front=table.optional("to_front", bool) or False,
        columns=tuple(_column(name, columns.sub(name)) for name in columns.names()),
    )


def _column(name: str, table: _Table) -> Column:
    table.only("title", "help", "unit", "display", "values")
    unit = table.optional("unit", str)
    if unit is not None and unit not in UNITS:
        raise table.error("unit", f"is none of {', '.join(UNITS)}")
    names = table.optional("values", dict) or {}
    if not all(isinstance(label, str) and key.isdigit() for key, label in names.items()):
        raise table.error("values", "does not map whole numbers to names")
    return Column(
        name=name,
        title=table.get("title", str),
        help=table.get("help", str),
        unit=unit,
        display=table.optional("display", bool) is not False,
        values={int(key): label for key, label in names.items()},
    )


def _attach(table: _Table) -> Attach:
    table.only("program", "section", "required", "gives")
    return Attach(
        program=table.get("program", str),
        section=table.get("section", str),
        required=table.optional("required", bool) or False,
        gives=table.get("gives", str),
    )


class _Table:
    """A TOML table that knows its place, so that an error can name file and key."""

    def __init__(self, value: Mapping[str, Any], file: str, place: str) -> None:
        self._value, self._file, self._place = value, file, place

    def error(self, key: str, what: str) -> InputUnreadable:
        return InputUnreadable(f"{self._file}: {self._place}{key} {what}")

    def names(self) -> list[str]:
        return list(self._value)

    def only(self, *allowed: str) -> None:
        for key in self._value:
            if key not in allowed:
                raise self.error(key, f"is unknown; allowed are {', '.join(allowed)}")

    def get(self, key: str, kind: type[_T]) -> _T:
        value = self.optional(key, kind)
        if value is None:
            raise self.error(key, "is missing")
        return value

    def optional(self, key: str, kind: type[_T]) -> _T | None:
        value = self._value.get(key)
        if value is not None and type(value) is not kind:
            raise self.error(key, f"is no {_KINDS[kind]}")
        return value

    def texts(self, key: str) -> list[str]:
        values = self.get(key, list)
        if not all(isinstance(value, str) for value in values):
            raise self.error(key, "is no list of texts")
        return values

    def sub(self, key: str) -> _Table:
        return _Table(self.get(key, dict), self._file, f"{self._place}{key}.")

    def tables(self, key: str) -> list[_Table]:
        values = self.get(key, list)
        if not values or not all(isinstance(value, dict) for value in values):
            raise self.error(key, "is no list of tables")
        return [_Table(value, self._file, f"{self._place}{key}[{index}].") for index, value in enumerate(values)]
