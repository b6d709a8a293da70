# SPDX-License-Identifier: Apache-2.0
"""Which functions of which libraries are probed: reads `probes/tls/*.toml`, which explain their members, and more."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable

__all__ = ["COPIES", "FREE", "HANDSHAKE", "NAMES", "PLAIN", "TLS", "Function", "Inner", "Table", "load", "tables"]

_SCHEMA = 1
_FOLDERS = ("tls", "names", "gpu")
_MEMBERS = (
    "schema", "probe", "library", "version", "files", "programs", "inside", "usual", "static", "functions", "plain",
    "inner", "go", "unprobed",
)  # fmt: skip
TLS, NAMES, PLAIN, COPIES = "ssl", "dns", "plain", "weights"
"""The probes whose programs stand on functions."""
_LIBRARIES = {"openssl": 1, "boringssl": 2, "gnutls": 3, "go": 4, "libc": 1, "cuda": 1}
"""Of `enum nd_tls_library`; there is one kind of C library, and one of the CUDA driver."""
_KINDS = {"handshake": 1, "context": 2, "trust": 3, "free": 4, "name": 1, "sockaddr": 2, "address": 3, "to-device": 1}
"""Of `enum nd_tls_call_kind`, and of `enum nd_lookup_kind` for names."""
_WORKS = {
    "one": 1, "zero": 2, "pointer": 3, "count": 4, "addrinfo": 5, "hostent": 6, "hostent_5": 7, "hostent_6": 8,
    "hostent_of": 9,
}  # fmt: skip
"""Of `enum success` in bpf/ssl.bpf.c and `enum result` in bpf/include/netdiag/name_calls.h."""
HANDSHAKE, FREE = "handshake", "free"
_PLAIN_KINDS = {"end": 4, "read": 5, "write": 6, "file": 7, "go-begin": 8, "go-end": 9, "go-read": 10, "go-write": 11}
"""Of `enum kind` in bpf/plain.bpf.c; the returns of Go's functions are two higher."""
_MOVES = {"int": 1, "long": 2, "fourth": 3, "last": 4}
"""Of `enum moves` there."""
_RETURNING = frozenset({"read", "write", "file"})
_GO_RETURNING = frozenset({"go-read", "go-write"})
_GO_RETURN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function that a probe goes on, where it is there."""

    name: str
    kind: str
    cookie: int
    """What the kernel program is told."""
    instead: str | None = None
    """Only where this other function is not there."""

    @property
    def returns(self) -> bool:
        """Tell whether a probe on its return is wanted, too, as C functions return."""
        return self.kind in _RETURNING

    @property
    def return_cookie(self) -> int | None:
        """Return what the program is told at the returns of a Go function; None where those do not matter."""
        return self.cookie + _GO_RETURN if self.kind in _GO_RETURNING else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A function without a name that several functions call, and that is probed instead of them."""

    function: Function
    of: tuple[str, ...]
    """All of these call it."""
    not_of: tuple[str, ...]
    """None of these does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One library."""

    library: str
    version: str | None
    """Regular expression for its data."""
    files: tuple[str, ...]
    programs: tuple[str, ...]
    inside: str | None
    """A function that shows that a program has the library inside."""
    usual: tuple[str, ...]
    """Names of the files under which programs usually load it."""
    functions: tuple[Function, ...]
    probe: str = TLS
    """Whose programs go on the functions."""
    plain: tuple[Function, ...] = ()
    """Where plaintext passes, for the probe of that name."""
    inner: tuple[Inner, ...] = ()
    unprobed: bool = False
    """It has no functions that could be found: it is named, and seen on the wire only."""
    go: bool = False
    """The functions are those of Go programs."""
    static: bool = False
    """Programs that load no library at all may have it inside, found by their table of symbols."""

    def is_file(self, path: str) -> bool:
        """Tell whether a mapped path is this library."""
        return any(fnmatchcase(path, pattern) for pattern in self.files)

    def chosen(self, there: Collection[str]) -> list[Function]:
        """Return the functions to probe in a file that has those in `there`."""
        return [f for f in self.functions if f.name in there and (f.instead is None or f.instead not in there)]


def tables(folder: Path | None = None) -> tuple[Table, ...]:
    """Return the shipped tables by name; InputUnreadable names file and key that is wrong."""
    folders = [folder] if folder else [data_dir("probes") / name for name in _FOLDERS]
    return tuple(load(path) for each in folders for path in sorted(each.glob("*.toml")))


def load(path: Path) -> Table:
    """Return the table of a file; InputUnreadable names file and key that is wrong."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        _only(data, *_MEMBERS)
        _one_of("schema", data["schema"], (_SCHEMA,))
        _one_of("probe", data.get("probe", TLS), (TLS, NAMES, COPIES))
        if data.get("version") is not None:
            re.compile(data["version"])
        return Table(
            library=data["library"],
            version=data.get("version"),
            files=tuple(data["files"]),
            programs=tuple(data["programs"]),
            inside=data.get("inside"),
            usual=tuple(data.get("usual", ())),
            functions=tuple(_function(data["library"], name, told) for name, told in data["functions"].items()),
            probe=data.get("probe", TLS),
            plain=tuple(_plain(data["library"], name, told) for name, told in data.get("plain", {}).items()),
            inner=tuple(_inner(data["library"], told) for told in data.get("inner", ())),
            go=data.get("go", False),
            unprobed=data.get("unprobed", False),
            static=data.get("static", False),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, re.error) as error:
        raise InputUnreadable(f"{path}: {error!r}") from error


def _only(table: Mapping[str, Any], *allowed: str) -> None:
    for key in table:
        _one_of("key", key, allowed)


def _one_of(what: str, value: object, allowed: Collection[object]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} {value!r} is none of {', '.join(map(str, allowed))}")


def _function(library: str, name: str, told: Mapping[str, Any]) -> Function:
    _only(told, "kind", "works", "instead")
    works = _WORKS[told["works"]] if told["kind"] != FREE else 0
    cookie = _KINDS[told["kind"]] | _LIBRARIES[library] << 8 | works << 16
    return Function(name=name, kind=told["kind"], cookie=cookie, instead=told.get("instead"))


def _plain(library: str, name: str, told: Mapping[str, Any]) -> Function:
    _only(told, "kind", "moves")
    moves = _MOVES[told["moves"]] if told["kind"] in _RETURNING else 0
    return Function(
        name=name, kind=told["kind"], cookie=_PLAIN_KINDS[told["kind"]] | _LIBRARIES[library] << 8 | moves << 16
    )


def _inner(library: str, told: Mapping[str, Any]) -> Inner:
    _only(told, "of", "not_of", "kind", "moves")
    function = _plain(library, "", {"kind": told["kind"], "moves": told["moves"]})
    return Inner(function=function, of=tuple(told["of"]), not_of=tuple(told["not_of"]))
