# SPDX-License-Identifier: Apache-2.0
"""Baselines in the user's data folder: `baselines.sqlite`, readable by its owner only.

It holds names of hosts and models and counts of times; no requests. A recording that was remembered once counts once.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from netdiag import state
from netdiag.baseline.figures import Figures, Scenario
from netdiag.errors import InputUnreadable, NetdiagError

__all__ = ["Store", "open_store"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS figures (
    host TEXT NOT NULL, model TEXT NOT NULL, stream INTEGER NOT NULL, region TEXT NOT NULL,
    hour INTEGER NOT NULL, dimension TEXT NOT NULL,
    n INTEGER NOT NULL, total REAL NOT NULL, squares REAL NOT NULL, bins TEXT NOT NULL,
    PRIMARY KEY (host, model, stream, region, hour, dimension)
);
CREATE TABLE IF NOT EXISTS remembered (print TEXT PRIMARY KEY, at TEXT NOT NULL);
PRAGMA user_version = 1;
"""
_VERSION = 1


@contextlib.contextmanager
def open_store(where: Path | None = None, *, make: bool = False) -> Iterator[Store]:
    """Give the store, and close it; with `make` it is made where there is none, else that is an InputUnreadable."""
    where = state.data_folder() if where is None else where
    path = where / "baselines.sqlite"
    try:
        if make:
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        elif not path.exists():
            raise InputUnreadable(f"there is no baseline in {where}", hint="netdiag trace --remember makes one")
        connection = sqlite3.connect(path, timeout=5.0)
    except (OSError, sqlite3.Error) as error:
        raise NetdiagError(f"{path}: {error}") from error
    try:
        with connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > _VERSION:
                raise InputUnreadable(f"{path} was made by a newer netdiag")
            connection.executescript(_SCHEMA)
        yield Store(connection)
    except sqlite3.DatabaseError as error:
        raise InputUnreadable(f"{path}: {error}") from error
    finally:
        connection.close()


class Store:
    """Figures by scenario, hour and dimension."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def remember(self, found: Mapping[tuple[Scenario, int, str], Figures], print_: str, at: str) -> bool:
        """Add what a recording taught; False, with nothing changed, where it was remembered before."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            known = self._connection.execute("SELECT 1 FROM remembered WHERE print = ?", (print_,)).fetchone()
            if known:
                return False
            self._connection.execute("INSERT INTO remembered VALUES (?, ?)", (print_, at))
            for (scenario, hour, dimension), figures in found.items():
                self._add(scenario, hour, dimension, figures)
        return True

    def _add(self, scenario: Scenario, hour: int, dimension: str, figures: Figures) -> None:
        key = (scenario.host, scenario.model, int(scenario.stream), scenario.region, hour, dimension)
        where = "host = ? AND model = ? AND stream = ? AND region = ? AND hour = ? AND dimension = ?"
        row = self._connection.execute(f"SELECT n, total, squares, bins FROM figures WHERE {where}", key).fetchone()  # noqa: S608 - own words
        whole = Figures() if row is None else _figures(row)
        whole.add(figures)
        self._connection.execute(
            "INSERT OR REPLACE INTO figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, whole.n, whole.total, whole.squares, json.dumps(whole.bins)),
        )

    def figures(self, *, host: str | None = None, hour: int | None = None) -> dict[tuple[Scenario, str], Figures]:
        """Return the figures by scenario and dimension: all, of one host, of one hour of the day (UTC)."""
        found: dict[tuple[Scenario, str], Figures] = {}
        rows = self._connection.execute(
            """SELECT n, total, squares, bins, host, model, stream, region, dimension FROM figures
            WHERE (?1 IS NULL OR host = ?1) AND (?2 IS NULL OR hour = ?2)
            ORDER BY host, model, stream, region, hour""",
            (host, hour),
        )
        for *numbers, name, model, stream, region, dimension in rows:
            scenario = Scenario(host=name, model=model, stream=bool(stream), region=region)
            found.setdefault((scenario, dimension), Figures()).add(_figures(numbers))
        return found

    def forget(self, host: str | None = None) -> int:
        """Forget one host, or all, and return how many scenarios that were."""
        where = "WHERE ?1 IS NULL OR host = ?1"
        with self._connection:
            query = f"SELECT count(*) FROM (SELECT DISTINCT host, model, stream, region FROM figures {where})"  # noqa: S608 - own words
            (count,) = self._connection.execute(query, (host,)).fetchone()
            self._connection.execute(f"DELETE FROM figures {where}", (host,))  # noqa: S608 - own words
            if host is None:
                self._connection.execute("DELETE FROM remembered")
        return int(count)


def _figures(row: tuple[int, float, float, str] | list[object]) -> Figures:
    n, total, squares, bins = row
    try:
        counts = {int(place): int(count) for place, count in json.loads(str(bins)).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise sqlite3.DatabaseError("figures that are not netdiag's") from error
    return Figures(n=int(str(n)), total=float(str(total)), squares=float(str(squares)), bins=counts)
