# SPDX-License-Identifier: Apache-2.0
"""The words of the findings: what a code means, how it is proven, what refutes it, and what to change.

Read from `reports/findings/*.toml`: one table per code under `codes`; `use` names a list under `remedies` that
several codes share. Standard library only; holds no judgement.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable
from netdiag.findings import Advice

__all__ = ["GENERIC", "Entry", "Remedy", "catalog", "load"]

_SCHEMA = 1
GENERIC = "generic"
_NAME = re.compile(r"\{([a-z_]+)\}")
"""A value's name in a template. Braces of code in snippets have spaces inside and stay as they are."""
_IN_GENERAL = {"above": "SECONDS", "below": "SECONDS", "learned": "N", "count": "N", "of": "M", "price": "TIME"}
_MOST = 2
"""So many pieces of advice at most: of the library that is closest to the program first."""
_TEXTS = ("title", "plain", "means", "proof", "proof_line", "cost", "refuted")
_REMEDY = ("library", "text", "setting", "value", "snippet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to change, in the words of one library. `{name}` stands for a value of the finding."""

    library: str
    """Name as `probes/libraries.toml` has it, or `generic`."""
    text: str
    setting: str | None
    value: str | None
    snippet: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """All that is written about one code."""

    code: str
    title: str
    """Sentence with the cost; used when it is known."""
    plain: str
    """Sentence without the cost."""
    means: str
    proof: str
    """How it is proven, in general."""
    proof_line: str
    """How it was proven in this run, in one line."""
    cost: str
    """How the cost is computed."""
    refuted: str
    """What would show that the finding is wrong."""
    remedies: tuple[Remedy, ...]
    unsaid: str | None = None
    """Why netdiag does not say it: what it would have to see. None = it is said."""

    def render(self, template: str, values: Mapping[str, str]) -> str:
        """Return a template with its `{names}` filled in; an unknown name stays visible as `?`."""
        return _NAME.sub(lambda match: values.get(match[1], "?"), template)

    def in_general(self) -> Entry:
        """Return the entry as it reads without a run: numbers that a run would show are named in capitals."""

        def plain(text: str) -> str:
            return _NAME.sub(lambda match: _IN_GENERAL.get(match[1], match[1].upper()), text)

        def general(remedy: Remedy) -> Remedy:
            value, snippet = (text and plain(text) for text in (remedy.value, remedy.snippet))
            return replace(remedy, text=plain(remedy.text), value=value, snippet=snippet)

        texts = {name: plain(getattr(self, name)) for name in _TEXTS}
        if _NAME.fullmatch(self.plain):  # all of it is said in a run only
            texts["plain"] = self.means.partition(". ")[0].removesuffix(".")
        return replace(self, remedies=tuple(map(general, self.remedies)), **texts)

    def render_advice(
        self, libraries: Iterable[str], values: Mapping[str, str], *, guesses: Iterable[str] = ()
    ) -> tuple[Advice, ...]:
        """Return what to change for the loaded libraries, else for those that may be loaded and for any."""
        known = {remedy.library for remedy in self.remedies}
        chosen = [name for name in dict.fromkeys(libraries) if name in known][:_MOST]
        if not chosen:
            chosen = [*[name for name in dict.fromkeys(guesses) if name in known][: _MOST - 1], GENERIC]
        fitting = [remedy for name in chosen for remedy in self.remedies if remedy.library == name]
        return tuple(self._advice(remedy, values) for remedy in fitting[:_MOST])

    def _advice(self, remedy: Remedy, values: Mapping[str, str]) -> Advice:
        def filled(text: str | None) -> str | None:
            return None if text is None else self.render(text, values)

        return Advice(
            text=self.render(remedy.text, values),
            setting=remedy.setting,
            value=filled(remedy.value),
            snippet=filled(remedy.snippet),
            applies_to=None if remedy.library == GENERIC else remedy.library,
        )


@cache
def catalog() -> Mapping[str, Entry]:
    """Return every code's entry, by code; InputUnreadable says what is wrong in which file."""
    entries: dict[str, Entry] = {}
    for path in sorted((data_dir("reports") / "findings").glob("*.toml")):
        for code, entry in load(path).items():
            if code in entries:
                raise InputUnreadable(f"{path}: {code} is described twice")
            entries[code] = entry
    return MappingProxyType(entries)


def load(path: Path) -> dict[str, Entry]:
    """Return the entries of one file; InputUnreadable names file and key."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputUnreadable(f"{path}: {error}") from error
    if data.get("schema") != _SCHEMA:
        raise InputUnreadable(f"{path}: schema {data.get('schema')} is not {_SCHEMA}")
    codes = data.get("codes")
    if not isinstance(codes, dict):
        raise InputUnreadable(f"{path}: codes is missing")
    return {code: _entry(path, code, table, data.get("remedies", {})) for code, table in codes.items()}


def _entry(path: Path, code: str, table: Any, shared: Mapping[str, Any]) -> Entry:
    where = f"{path}: {code}"
    if not code.startswith(f"{path.stem}."):
        raise InputUnreadable(f"{where} belongs into {code.partition('.')[0]}.toml")
    _only(where, table, (*_TEXTS, "use", "advice", "unsaid"))
    texts = {name: _text(where, table, name) for name in _TEXTS}
    unsaid = _text(where, table, "unsaid") if "unsaid" in table else None
    if table.get("use", "") not in ("", *shared):
        raise InputUnreadable(f"{where}: there are no remedies called {table['use']}")
    items = [*table.get("advice", ()), *shared.get(table.get("use", ""), ())]
    remedies = tuple(_remedy(where, item) for item in items)
    if GENERIC not in {remedy.library for remedy in remedies}:
        raise InputUnreadable(f'{where}: there is no advice for library = "{GENERIC}"')
    return Entry(code=code, remedies=remedies, unsaid=unsaid, **texts)


def _remedy(where: str, table: Any) -> Remedy:
    _only(f"{where}: advice", table, _REMEDY)
    optional = {name: table.get(name) for name in ("setting", "value", "snippet")}
    if not all(value is None or isinstance(value, str) for value in optional.values()):
        raise InputUnreadable(f"{where}: advice: setting, value and snippet are texts")
    return Remedy(
        library=_text(f"{where}: advice", table, "library"), text=_text(f"{where}: advice", table, "text"), **optional
    )


def _text(where: str, table: Mapping[str, Any], name: str) -> str:
    value = table.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InputUnreadable(f"{where}: {name} is missing")
    return value.strip()


def _only(where: str, table: Any, names: Iterable[str]) -> None:
    if not isinstance(table, dict):
        raise InputUnreadable(f"{where} is no table")
    unknown = sorted(set(table) - set(names))
    if unknown:
        raise InputUnreadable(f"{where}: unknown {', '.join(unknown)}")
