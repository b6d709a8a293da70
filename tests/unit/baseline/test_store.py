# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sqlite3
import threading

import numpy as np
import pytest

from netdiag.baseline.figures import Figures, Scenario
from netdiag.baseline.store import open_store
from netdiag.errors import InputUnreadable

API = Scenario(host="api.example.com", model="gpt-x", stream=True)


def learned(count=10, hour=3, scenario=API):
    return {(scenario, hour, "api"): Figures.of(np.full(count, 50.0))}


def test_it_grows_and_a_recording_counts_once(tmp_path):
    with open_store(tmp_path, make=True) as kept:
        assert kept.remember(learned(), "one", "2026-12-01")
        assert not kept.remember(learned(), "one", "2026-12-01")
        assert kept.remember(learned(5, hour=4), "two", "2026-12-01")
    with open_store(tmp_path) as kept:
        assert kept.figures()[API, "api"].n == 15
        assert kept.figures(hour=4)[API, "api"].n == 5
        assert kept.figures(host="other") == {}


def test_it_forgets(tmp_path):
    with open_store(tmp_path, make=True) as kept:
        kept.remember(learned() | learned(3, scenario=Scenario(host="b")), "one", "x")
        assert kept.forget("b") == 1
        assert list(kept.figures()) == [(API, "api")]
        assert kept.forget() == 1
        assert kept.figures() == {}
        assert kept.remember(learned(), "one", "x")


def test_it_is_the_owners_alone(tmp_path):
    with open_store(tmp_path / "data", make=True):
        pass
    assert (tmp_path / "data" / "baselines.sqlite").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_reading_makes_nothing(tmp_path):
    with pytest.raises(InputUnreadable, match="no baseline"), open_store(tmp_path / "data"):
        pass
    assert not (tmp_path / "data").exists()


def test_what_is_no_store_is_told(tmp_path):
    (tmp_path / "baselines.sqlite").write_bytes(b"this is no database, and long enough to be looked at" * 30)
    with pytest.raises(InputUnreadable), open_store(tmp_path):
        pass


def test_figures_that_are_not_ours_are_told(tmp_path):
    with open_store(tmp_path, make=True) as kept:
        kept.remember(learned(), "one", "x")
    with sqlite3.connect(tmp_path / "baselines.sqlite") as raw:
        raw.execute("UPDATE figures SET bins = '[1]'")
    raw.close()
    with pytest.raises(InputUnreadable), open_store(tmp_path) as kept:
        kept.figures()


def test_a_newer_one_is_refused(tmp_path):
    with open_store(tmp_path, make=True):
        pass
    raw = sqlite3.connect(tmp_path / "baselines.sqlite")
    raw.execute("PRAGMA user_version = 9")
    raw.close()
    with pytest.raises(InputUnreadable, match="newer"), open_store(tmp_path):
        pass


def test_two_at_once_lose_nothing(tmp_path):
    def work(number):
        with open_store(tmp_path, make=True) as kept:
            for again in range(5):
                kept.remember(learned(1), f"{number}-{again}", "x")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_store(tmp_path) as kept:
        assert kept.figures()[API, "api"].n == 20
