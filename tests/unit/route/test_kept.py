# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netdiag.route import history, kept
from tests.fakes.routes import checked


def _keep(where: Path, host: str, **more: Any) -> None:
    store = history.open_store(where)
    assert store is not None
    store.keep(history.target_of(host, 443, "tcp"), checked() | more)
    store.close()


def test_the_newest_check_of_each_host(tmp_path):
    _keep(tmp_path, "api.example.com", started="2026-11-30T10:00:00.000000000Z")
    _keep(tmp_path, "API.example.com", started="2026-11-30T12:00:00.000000000Z")
    _keep(tmp_path, "other.example", started="2026-11-30T11:00:00.000000000Z")
    found = kept.latest(["Api.Example.com", "nobody.example", ""], tmp_path)
    assert {host: document["started"][:13] for host, document in found.items()} == {"Api.Example.com": "2026-11-30T12"}


def test_no_history_is_made_by_asking(tmp_path):
    assert kept.latest(["api.example.com"], tmp_path / "none") == {}
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"schema": "netdiag.route/1"}', "\0" * 9])
def test_documents_that_are_none(tmp_path, content):
    _keep(tmp_path, "a.example")
    next(tmp_path.glob("route-*.json")).write_text(content)
    assert kept.latest(["a.example"], tmp_path) == {}


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "routes.sqlite").write_text("no")
    assert kept.latest(["a.example"], tmp_path) == {}


def test_a_name_in_the_history_leads_nowhere_else(tmp_path):
    _keep(tmp_path / "in", "a.example")
    outside = tmp_path / "route-x.json"
    outside.write_text(next((tmp_path / "in").glob("route-*.json")).read_text())
    import sqlite3

    with sqlite3.connect(tmp_path / "in" / "routes.sqlite") as database:
        database.execute("UPDATE checks SET document = '../route-x.json'")
    assert kept.latest(["a.example"], tmp_path / "in") == {}
