# SPDX-License-Identifier: Apache-2.0
"""Places in the names of routers: per operator where its pattern is known, whole city words elsewhere.

Three letters are an airport by chance for half of all words, so codes count only inside a known operator's zone, at
the position where that operator writes the place. Names of customers' lines tell nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable
from netdiag.route.gazetteer import Gazetteer, Place, gazetteer

__all__ = ["NameHint", "Operator", "Patterns", "load", "patterns"]

OPERATOR_WEIGHT = 0.85
CITY_WEIGHT = 0.7
_SHORTEST_CITY = 5
_HOST_NAME = re.compile(r"[a-z0-9_][a-z0-9._-]{0,252}")
_TOKEN = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NameHint:
    """What a name says."""

    place: Place
    token: str
    """The letters that say it."""
    weight: float
    operator: str | None
    """Whose pattern it was; None: a city's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """How one operator names routers."""

    name: str
    zones: tuple[str, ...]
    pattern: re.Pattern[str]
    """Its group `place`."""
    aliases: Mapping[str, str]
    """Operator's own word → airport code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """All operators, and the words that mark customers' names."""

    operators: tuple[Operator, ...]
    customers: frozenset[str]

    def read(self, name: str | None, cities: Gazetteer | None = None) -> NameHint | None:
        """Return what a router's name says of its place; None where it says nothing that can be relied on."""
        cities = cities or gazetteer()
        text = (name or "").rstrip(".").lower()
        if not _HOST_NAME.fullmatch(text) or self._customer(text):
            return None
        for operator in self.operators:
            for zone in operator.zones:
                if text.endswith(f".{zone}"):
                    hint = _by_operator(operator, text[: -len(zone) - 1], cities)
                    return hint or _by_city(text[: -len(zone) - 1], cities)
        return _by_city(text.rpartition(".")[0].rpartition(".")[0], cities)

    def _customer(self, text: str) -> bool:
        own = text.rpartition(".")[0].rpartition(".")[0]  # the owner's domain may be called anything
        return any(token in self.customers for token in re.split(r"[.\-_]", own))


def _by_operator(operator: Operator, rest: str, cities: Gazetteer) -> NameHint | None:
    match = operator.pattern.search(rest)
    if match is None:
        return None
    token = match["place"]
    code = operator.aliases.get(token)
    place = cities.codes.get(code) if code else cities.find(token)
    if place is None:
        return None
    return NameHint(place=place, token=token, weight=OPERATOR_WEIGHT, operator=operator.name)


def _by_city(text: str, cities: Gazetteer) -> NameHint | None:
    for token in _TOKEN.findall(text):
        if len(token) >= _SHORTEST_CITY and token in cities.words:
            return NameHint(place=cities.words[token], token=token, weight=CITY_WEIGHT, operator=None)
    return None


@cache
def patterns() -> Patterns:
    """Return the shipped patterns."""
    return load(data_dir("probes") / "routes" / "operators.toml")


def load(path: Path) -> Patterns:
    """Return the patterns of a file; InputUnreadable says what is wrong."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        operators = tuple(_operator(row) for row in table["operators"])
        return Patterns(operators=operators, customers=frozenset(table["customers"]["words"]))
    except (KeyError, ValueError, TypeError, re.error) as error:
        raise InputUnreadable(f"{path}: {error}") from error


def _operator(row: Mapping[str, Any]) -> Operator:
    pattern = re.compile(row["pattern"])
    if "place" not in pattern.groupindex:
        raise ValueError(f"{row['name']}: the pattern has no group called place")
    return Operator(name=row["name"], zones=tuple(row["zone"]), pattern=pattern, aliases=dict(row.get("aliases", {})))
