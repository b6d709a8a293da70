# SPDX-License-Identifier: Apache-2.0
"""Earlier checks, in the user's data folder: what they said, and the whole documents of the last ones to replay.

`$XDG_DATA_HOME/netdiag` or `~/.local/share/netdiag`, readable by their owner only. A history that cannot be opened is
none: a check never fails for it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from netdiag import state
from netdiag.render import Options
from netdiag.render import json as as_json
from netdiag.route.model import Protocol, Target
from netdiag.route.persistence import Check

__all__ = ["Store", "check_of", "open_store", "place_of", "target_of"]

_MOST_ROWS = 20_000
_MOST_DOCUMENTS = 50
_SCHEMA = """
CREATE TABLE IF NOT EXISTS checks (
    at_s REAL NOT NULL, host TEXT NOT NULL, port INTEGER NOT NULL, protocol TEXT NOT NULL,
    verdict TEXT NOT NULL, kind TEXT, rtt_ms REAL, place TEXT, document TEXT
);
CREATE INDEX IF NOT EXISTS by_target ON checks (host, port, protocol, at_s);
PRAGMA user_version = 1;
"""


def target_of(host: str, port: int, protocol: str) -> Target:
    """Return the target that a check of these words has."""
    return Target(host=host, port=port, protocol=Protocol(protocol))


def check_of(document: Mapping[str, Any]) -> Check:
    """Return what is remembered of a document."""
    address = document["addresses"][0] if document["addresses"] else None
    return Check(
        at_s=_seconds(document["started"]),
        verdict=document["detour"]["verdict"],
        kind=document["detour"]["class"],
        rtt_ms=address["connect_ms"]["min"] if address else None,
        place=place_of(document),
    )


def place_of(document: Mapping[str, Any]) -> str:
    """Return the network and region that a check was made from, as far as they are known."""
    here = document["vantage"]
    return f"AS{here['asn'] or '?'} {here['region'] or '?'}"


def _seconds(started: str) -> float:
    return datetime.fromisoformat(f"{started[:26]}+00:00").timestamp()


def open_store(where: Path | None = None) -> Store | None:
    """Return the history, made if need be; None where that is impossible."""
    where = state.data_folder() if where is None else where
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = where / "routes.sqlite"
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=2.0, isolation_level=None)
        connection.executescript(_SCHEMA)
    except (OSError, sqlite3.Error):
        return None
    return Store(connection, where)


class Store:
    """An open history."""

    def __init__(self, connection: sqlite3.Connection, where: Path) -> None:
        self._db = connection
        self._where = where

    def earlier(self, target: Target, most: int = 100) -> tuple[Check, ...]:
        """Return the last checks of a target, oldest first; none where the file is broken."""
        try:
            rows = self._db.execute(
                "SELECT at_s, verdict, kind, rtt_ms, place FROM checks WHERE host = ? AND port = ? AND protocol = ? "
                "ORDER BY at_s DESC LIMIT ?",
                (target.host.lower(), target.port, str(target.protocol), most),
            ).fetchall()
        except sqlite3.Error:
            return ()
        rows.reverse()
        return tuple(
            Check(at_s=at, verdict=verdict, kind=kind, rtt_ms=rtt, place=place)
            for at, verdict, kind, rtt, place in rows
        )

    def keep(self, target: Target, document: Mapping[str, Any]) -> str | None:
        """Remember a check, and keep its document to replay; return the document's path, None where it is not kept."""
        check = check_of(document)
        path = self._write(document)
        try:
            self._db.execute(
                "INSERT INTO checks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    check.at_s,
                    target.host.lower(),
                    target.port,
                    str(target.protocol),
                    check.verdict,
                    check.kind,
                    check.rtt_ms,
                    check.place,
                    path.name if path else None,
                ),
            )
            self._db.execute("DELETE FROM checks WHERE rowid <= (SELECT MAX(rowid) FROM checks) - ?", (_MOST_ROWS,))
        except sqlite3.Error:
            return str(path) if path else None
        self._prune()
        return str(path) if path else None

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _write(self, document: Mapping[str, Any]) -> Path | None:
        stamp = "".join(letter for letter in document["started"] if letter.isdigit())[:17]
        path = self._where / f"route-{stamp}.json"
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(as_json.render(document, Options()))
        except OSError:
            return None
        return path

    def _prune(self) -> None:
        with contextlib.suppress(OSError):
            for path in sorted(self._where.glob("route-*.json"))[:-_MOST_DOCUMENTS]:
                path.unlink()
