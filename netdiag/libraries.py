# SPDX-License-Identifier: Apache-2.0
"""Tells which HTTP client libraries a process uses, without looking into its memory, files or environment.

Standard library only: the recorder calls it with privileges. What it is given comes from a foreign process, so names
are only matched, never followed beyond one `listdir` of a site-packages folder, and all numbers are bounded.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable

__all__ = ["Library", "Rule", "detect", "load", "rules"]

_SCHEMA = 1
_MOST_PATHS = 20_000
_MOST_NAMES = 20_000
_MOST_FOLDERS = 4
_LONGEST = 4096
_SITE = re.compile(r"(.*/(?:site|dist)-packages)/(.+)")
_DIST_INFO = re.compile(r"([A-Za-z0-9_.]+)-([A-Za-z0-9_.+!]{1,40})\.dist-info")
_LISTS = ("programs", "maps", "markers", "hides")

Lister = Callable[[str], Iterable[str]]
"""Names in a folder as the process sees it; nothing where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A client library of a process."""

    name: str
    version: str | None
    evidence: str
    """Begins with `mapped`, `program` or `installed`; only the last is a guess."""

    @property
    def certain(self) -> bool:
        """The process has it loaded; otherwise it is only installed beside it."""
        return not self.evidence.startswith("installed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How to recognise one library; the members are explained in `probes/libraries.toml`."""

    name: str
    distribution: str | None
    head: str | None
    programs: tuple[str, ...]
    maps: tuple[str, ...]
    markers: tuple[str, ...]
    hides: tuple[str, ...]


def detect(
    exe: str,
    maps_paths: Iterable[str],
    listdir: Lister,
    *,
    invoked: str | None = None,
    head: bytes = b"",
) -> list[Library]:
    """Return the libraries of a process, certain ones first, each once.

    `exe` and `maps_paths` are what /proc/PID/exe and /proc/PID/maps say; `invoked` is the path that the program was
    started by (a virtual environment's `bin/python` leads to its packages), `head` the executable's first bytes.
    """
    paths = [path for path in islice(maps_paths, _MOST_PATHS) if len(path) <= _LONGEST]
    found = [library for rule in rules() if (library := _native(rule, exe, paths, head))]
    mapped = _mapped_packages(paths)
    for folder in _folders(exe, invoked, mapped, listdir):
        installed = _installed(listdir(folder))
        loaded = mapped.get(folder, [])
        found += [
            library for rule in rules() if (library := _python(rule, folder, installed, loaded, listdir)) is not None
        ]
    return _settled(found)


def _native(rule: Rule, exe: str, paths: Sequence[str], head: bytes) -> Library | None:
    program = PurePosixPath(exe).name
    if program in rule.programs:
        return Library(name=rule.name, version=None, evidence=f"program {program}")
    for pattern in rule.maps:
        path = next((path for path in paths if fnmatchcase(path, pattern)), None)
        if path is not None:
            return Library(name=rule.name, version=None, evidence=f"mapped {PurePosixPath(path).name}")
    if rule.head is not None and rule.head.encode("latin-1") in head:
        return Library(name=rule.name, version=None, evidence="program built with it")
    return None


def _mapped_packages(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return site-packages folder → mapped files under it, relative to it."""
    found: dict[str, list[str]] = {}
    for path in paths:
        match = _SITE.fullmatch(path)
        if match:
            found.setdefault(match[1], []).append(match[2])
    return found


def _folders(exe: str, invoked: str | None, mapped: Iterable[str], listdir: Lister) -> list[str]:
    """Return the site-packages folders that the process is likely to use, the surest first."""
    folders = list(mapped)
    for program in filter(None, (invoked, exe)):
        path = PurePosixPath(program)
        if path.is_absolute() and ".." not in path.parts and path.name.startswith("python") and len(program) < _LONGEST:
            library = path.parent.parent / "lib"
            versions = [name for name in islice(listdir(str(library)), _MOST_NAMES) if _is_python(name)]
            folders += [f"{library}/{name}/site-packages" for name in sorted(versions)]
    return list(dict.fromkeys(folders))[:_MOST_FOLDERS]


def _is_python(name: str) -> bool:
    return re.fullmatch(r"python3\.\d{1,3}t?", name) is not None


def _installed(names: Iterable[str]) -> dict[str, str]:
    """Return distribution → version."""
    matches = (_DIST_INFO.fullmatch(name) for name in islice(names, _MOST_NAMES))
    return {match[1].lower().replace("_", "-"): match[2] for match in matches if match}


def _python(
    rule: Rule, folder: str, installed: dict[str, str], loaded: Sequence[str], listdir: Lister
) -> Library | None:
    if rule.distribution is None or rule.distribution not in installed:
        return None
    version = installed[rule.distribution]
    for marker in rule.markers:
        path = next((path for path in loaded if fnmatchcase(path, marker)), None)
        if path is not None:
            return Library(name=rule.name, version=version, evidence=f"mapped {PurePosixPath(path).name}")
        package, _, pattern = marker.partition("/")
        names = islice(listdir(f"{folder}/{package}"), _MOST_NAMES)
        if any(fnmatchcase(name, pattern) for name in names):
            return None  # it would be mapped if the library were loaded
    return Library(name=rule.name, version=version, evidence=f"installed as {rule.distribution} {version}")


def _settled(found: Sequence[Library]) -> list[Library]:
    """Return each library once, certain ones first, without those that a certain one brings along."""
    certain = [library for library in found if library.certain]
    names = {library.name for library in certain}
    hidden = {name for rule in rules() if rule.name in names for name in rule.hides}
    ordered = [*certain, *(library for library in found if not library.certain)]
    unique = {library.name: library for library in reversed(ordered)}
    return [library for library in ordered if unique.get(library.name) is library and library.name not in hidden]


@cache
def rules() -> tuple[Rule, ...]:
    """Return the shipped rules in their order; InputUnreadable says what is wrong."""
    return load(data_dir("probes") / "libraries.toml")


def load(path: Path) -> tuple[Rule, ...]:
    """Return the rules of a file; InputUnreadable names file and rule."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputUnreadable(f"{path}: {error}") from error
    if data.get("schema") != _SCHEMA or not isinstance(data.get("library"), list):
        raise InputUnreadable(f"{path}: schema is not {_SCHEMA}, or there is no list of libraries")
    return tuple(_rule(path, table) for table in data["library"])


def _rule(path: Path, table: Any) -> Rule:
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        raise InputUnreadable(f"{path}: a library without a name")
    where = f"{path}: {table['name']}"
    unknown = sorted(set(table) - {"name", "distribution", "head", *_LISTS})
    if unknown:
        raise InputUnreadable(f"{where}: unknown {', '.join(unknown)}")
    lists = {name: table.get(name, []) for name in _LISTS}
    texts = {name: table.get(name) for name in ("distribution", "head")}
    listed = all(isinstance(value, list) and all(isinstance(item, str) for item in value) for value in lists.values())
    if not listed or not all(value is None or isinstance(value, str) for value in texts.values()):
        raise InputUnreadable(f"{where}: texts and lists of texts only")
    return Rule(
        name=table["name"],
        distribution=texts["distribution"],
        head=texts["head"],
        programs=tuple(lists["programs"]),
        maps=tuple(lists["maps"]),
        markers=tuple(lists["markers"]),
        hides=tuple(lists["hides"]),
    )
