# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import stat
from pathlib import Path

from netdiag.route import document, replay
from netdiag.route.history import check_of, open_store, target_of
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import Inputs, examine
from tests.fakes.routes import START_NS, boomerang

TARGET = target_of("API.example.com", 443, "tcp")


def made():
    return document.build(examine(boomerang(), Knowledge(), Inputs(baseline_ms=12.0)))


def test_what_is_kept_comes_back(tmp_path):
    store = open_store(tmp_path / "netdiag")
    assert store is not None
    path = store.keep(TARGET, made())
    (check,) = store.earlier(target_of("api.EXAMPLE.com", 443, "tcp"))
    assert check == check_of(made())
    assert (check.verdict, check.kind, check.rtt_ms) == ("suspect", "boomerang", 88.1)
    assert abs(check.at_s - START_NS / 1e9) < 0.001
    assert store.earlier(target_of("api.example.com", 8443, "tcp")) == ()
    assert path is not None
    assert replay.read(Path(path).read_bytes()).measurement == boomerang()
    store.close()


def test_only_the_owner_can_read(tmp_path):
    store = open_store(tmp_path / "netdiag")
    assert store is not None
    store.keep(TARGET, made())
    store.close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "netdiag").iterdir()}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "netdiag").stat().st_mode) == 0o700


def test_old_documents_go(tmp_path):
    store = open_store(tmp_path)
    assert store is not None
    for number in range(60):
        store.keep(TARGET, {**made(), "started": f"2026-11-20T10:{number:02}:00.000000000Z"})
    assert len(list(tmp_path.glob("route-*.json"))) == 50
    assert len(store.earlier(TARGET)) == 60
    store.close()


def test_a_history_that_cannot_be_had_is_none(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert open_store(blocked) is None
    (tmp_path / "routes.sqlite").write_text("no database, but text that is long enough to be looked at " * 20)
    assert open_store(tmp_path) is None
