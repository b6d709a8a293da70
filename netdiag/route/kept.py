# SPDX-License-Identifier: Apache-2.0
"""The newest stored check of hosts: the way to them, for reports and the dashboard. Nothing is sent or written."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from netdiag import state

__all__ = ["SCHEMA", "is_check", "latest"]

SCHEMA = "netdiag.route/1"
_MOST_BYTES = 32 << 20
_MEMBERS = ("started", "target", "vantage", "addresses", "paths", "detour", "findings")


def latest(hosts: Iterable[str], where: Path | None = None) -> dict[str, Mapping[str, Any]]:
    """Return for each host that was checked the document of its newest check; none where there is no history."""
    folder = state.data_folder() if where is None else where
    wanted = {host.lower(): host for host in hosts if host}
    path = folder / "routes.sqlite"
    if not wanted or not path.is_file():
        return {}
    rows: list[tuple[str, str]] = []
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1.0)) as database,
    ):
        rows = database.execute("SELECT host, document FROM checks WHERE document IS NOT NULL ORDER BY at_s").fetchall()
    named = {wanted[host]: name for host, name in rows if host in wanted}
    found = {host: _read(folder / Path(name).name) for host, name in named.items()}
    return {host: document for host, document in found.items() if document is not None}


def _read(path: Path) -> Mapping[str, Any] | None:
    """Return a stored document; None where it is gone, or is none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return document if is_check(document) else None


def is_check(document: object) -> bool:
    """Tell whether this is the document of a check."""
    return (
        isinstance(document, Mapping)
        and document.get("schema") == SCHEMA
        and all(name in document for name in _MEMBERS)
    )
