# SPDX-License-Identifier: Apache-2.0
"""Scenarios are data: a server, a client, numbers that a seed draws anew, and what must be found.

A text that starts with `=` is arithmetic over the drawn numbers: `calls = "= 3 * k + 1"`.
"""

from __future__ import annotations

import ast
import operator
import random
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from netdiag.errors import UsageError

__all__ = ["Expectation", "Scenario", "Situation", "load_all", "shipped"]

KINDS = ("positive", "near-miss", "healthy")
Number = bool | int | float | str
OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "round": round}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the findings must and must not say. Codes are those of `netdiag explain`."""

    first: str | None = None
    """The code that leads the list of warnings."""
    codes: tuple[str, ...] = ()
    """Codes that must be there, above `info` unless listed in `quietly` too."""
    either: tuple[str, ...] = ()
    """Codes of which one at least is said aloud, where sockets alone can't decide between them."""
    quietly: tuple[str, ...] = ()
    """Codes for which severity `info` is enough."""
    causes: Mapping[str, str] | None = None
    """Code to the cause that it must name."""
    allowed: tuple[str, ...] = ()
    """Codes that may be there."""
    absent: tuple[str, ...] = ()
    """Codes that must not be there, not even as `info`."""
    quiet: bool = False
    """No finding above `info`."""
    values: tuple[Mapping[str, Any], ...] = ()
    """Learned numbers: `{code, is, within}`."""
    counts: bool = True
    """Compare connections, local ports and who closed with the server's facts."""
    closes: bool = True
    """Compare who closed."""
    requests: bool = False
    """Compare the number of requests per connection; plain HTTP only."""
    outcomes: Mapping[str, int] | None = None
    """Outcome to the least number of client connections with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario file, its numbers not yet drawn."""

    name: str
    """The file's name without suffix."""
    title: str
    about: tuple[str, ...]
    """Codes that it shows, or nearly shows."""
    kind: str
    """positive, near-miss or healthy."""
    fast: bool
    """Part of the set that every test run makes."""
    timeout_s: float
    numbers: Mapping[str, Any]
    tables: Mapping[str, Any]
    """The tables server, client, network, trace and expect, with formulas in them."""

    @classmethod
    def read(cls, path: Path) -> Scenario:
        """Read one file; what is wrong in it raises UsageError with the file's name."""
        table = tomllib.loads(path.read_text())
        unknown = set(table) - {"title", "about", "kind", "fast", "timeout_s", "numbers", *TABLES}
        kind = table.get("kind", "positive")
        if unknown or kind not in KINDS or "title" not in table:
            raise UsageError(f"scenario {path.name}: unknown {sorted(unknown)}, kind {kind!r}, or no title")
        return cls(
            name=path.stem,
            title=table["title"],
            about=tuple(table.get("about", ())),
            kind=kind,
            fast=table.get("fast", False),
            timeout_s=table.get("timeout_s", 60.0),
            numbers=table.get("numbers", {}),
            tables={name: table.get(name, {}) for name in TABLES},
        )

    def draw(self, seed: int, *, libraries: Iterable[str] | None = None) -> Situation:
        """Draw the numbers. The same seed gives the same situation.

        `libraries` limits a choice among client libraries to those that are at hand.
        """
        source = random.Random(f"{seed}/{self.name}")
        numbers: dict[str, Number] = {}
        for name, rule in self.numbers.items():
            numbers[name] = _draw(source, rule, numbers, None if name != "library" else libraries)
        tables = {name: _settle(table, numbers) for name, table in self.tables.items()}
        return Situation(scenario=self, seed=seed, numbers=numbers, expect=_expectation(tables.pop("expect")), **tables)


TABLES = ("server", "client", "network", "trace", "expect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A scenario with its numbers drawn."""

    scenario: Scenario
    seed: int
    numbers: Mapping[str, Number]
    server: Mapping[str, Any]
    client: Mapping[str, Any]
    network: Mapping[str, Any]
    trace: Mapping[str, Any]
    expect: Expectation

    @property
    def label(self) -> str:
        """Name, seed and numbers, enough to repeat the run."""
        drawn = ", ".join(f"{name}={value}" for name, value in self.numbers.items())
        return f"{self.scenario.name} (seed {self.seed}{': ' if drawn else ''}{drawn})"


def shipped() -> dict[str, Scenario]:
    """Return the scenarios that come with netdiag, by name."""
    return load_all([Path(__file__).parent / "scenarios"])


def load_all(folders: Iterable[Path]) -> dict[str, Scenario]:
    """Return all scenarios of some folders, by name, in the order of names."""
    paths = sorted((path for folder in folders for path in folder.glob("*.toml")), key=lambda path: path.stem)
    return {path.stem: Scenario.read(path) for path in paths}


def _draw(source: random.Random, rule: Any, numbers: Mapping[str, Number], at_hand: Iterable[str] | None) -> Number:
    if isinstance(rule, dict) and "draw" in rule:
        low, high = rule["draw"]
        whole = isinstance(low, int) and isinstance(high, int)
        return source.randint(low, high) if whole else round(source.uniform(low, high), 3)
    if isinstance(rule, dict) and "choose" in rule:
        known = set(at_hand) if at_hand is not None else None
        options = [option for option in rule["choose"] if known is None or option in known]
        if not options:
            raise UsageError(
                f"none of {', '.join(rule['choose'])} is at hand", hint="scripts/setup --lab installs the libraries"
            )
        chosen: Number = source.choice(options)
        return chosen
    settled: Number = _settle(rule, numbers)
    return settled


def _settle(value: Any, numbers: Mapping[str, Number]) -> Any:
    """Replace every formula in nested tables and lists by its value."""
    if isinstance(value, dict):
        return {name: _settle(entry, numbers) for name, entry in value.items()}
    if isinstance(value, list):
        return [_settle(entry, numbers) for entry in value]
    if isinstance(value, str) and value.startswith("="):
        return _evaluate(ast.parse(value[1:].strip(), mode="eval").body, numbers)
    return value


def _evaluate(node: ast.expr, numbers: Mapping[str, Number]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in numbers:
            return numbers[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_evaluate(left, numbers), _evaluate(right, numbers))
        case ast.Call(func=ast.Name(id=name), args=args) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_evaluate(entry, numbers) for entry in args))
    raise UsageError(f"a scenario's formula can't hold {ast.unparse(node)!r}")


def _expectation(table: Mapping[str, Any]) -> Expectation:
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    unknown = sorted(set(values) - {entry.name for entry in fields(Expectation)})
    if unknown:
        raise UsageError(f"a scenario expects something unknown: {', '.join(unknown)}")
    return Expectation(**values)
