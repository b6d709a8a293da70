# SPDX-License-Identifier: Apache-2.0
"""What is on the screen as a file: tables as CSV or JSON. Cells are texts as they are shown. Pure but for the file."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["free_name", "self_contained", "to_csv", "to_json", "write"]

Tables = Mapping[str, Sequence[Sequence[str]]]


def to_csv(tables: Tables) -> str:
    """Return the tables under each other, an empty line between, titles first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for place, rows in enumerate(tables.values()):
        if place:
            out.write("\n")
        writer.writerows([_guarded(cell) for cell in row] for row in rows)
    return out.getvalue()


def to_json(tables: Tables) -> str:
    """Return each table as a list of objects, titles as their names."""
    found = {}
    for name, rows in tables.items():
        titles = _distinct(rows[0]) if rows else []
        found[name] = [dict(zip(titles, row, strict=False)) for row in rows[1:]]
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def self_contained(svg: str) -> str:
    """Return a picture that asks nobody for fonts: looking at it must not tell a stranger."""
    return re.sub(r"@font-face\s*\{[^}]*\}", "", svg)


def free_name(folder: Path, stem: str, suffix: str) -> Path:
    """Return a name that no file has: `netdiag-overview.csv`, then `netdiag-overview-2.csv`."""
    path, number = folder / f"{stem}.{suffix}", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.{suffix}", number + 1
    return path


def write(path: Path, text: str) -> None:
    """Write a new file that only its owner reads; OSError where that is impossible."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _guarded(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula: hosts and paths are foreign text."""
    return f"'{cell}" if cell[:1] in {"=", "+", "@", "-"} and len(cell) > 1 else cell


def _distinct(titles: Sequence[str]) -> list[str]:
    """Return the titles with what they stand under: p95 of tokens is not p95 of waits."""
    seen: list[str] = []
    group = ""
    for place, title in enumerate(titles):
        words = title.split()
        if len(words) > 1:
            group = words[0]
        name = title or ("text" if place == 0 else "bar")
        seen.append(f"{group} {name}" if name in {"p95", "p99"} else name)
    return seen
