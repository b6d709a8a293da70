# SPDX-License-Identifier: Apache-2.0
"""The definitions of the figures: from which instant to which, and how others' figures of that name differ.

Read from `reports/metrics.toml`. Standard library only.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable

__all__ = ["UNITS", "Metric", "metrics"]

UNITS = ("ms", "tokens", "bytes", "count", "share", "flag")
_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a request or a run."""

    name: str
    """As the JSON has it."""
    unit: str
    """One of UNITS."""
    means: str
    where: str
    """What the figure rests on."""
    unknown: str
    """When it is null."""
    differs: tuple[tuple[str, str], ...]
    """Tool, and what its figure of that name is."""


@cache
def metrics() -> Mapping[str, Metric]:
    """Return all definitions by name; InputUnreadable where the shipped file is damaged."""
    path = data_dir("reports") / "metrics.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != _SCHEMA:
            raise InputUnreadable(f"{path.name}: schema is not {_SCHEMA}")
        found = {
            name: Metric(
                name=name,
                **{key: str(entry[key]) for key in ("unit", "means", "where", "unknown")},
                differs=tuple((str(tool), str(how)) for tool, how in entry["differs"]),
            )
            for name, entry in document["metrics"].items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputUnreadable(f"{path}: {error}") from error
    return MappingProxyType(found)
