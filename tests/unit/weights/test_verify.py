# SPDX-License-Identifier: Apache-2.0
"""Runs of `--verify`: which findings have one, that every way reads the file, and what state is claimed."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest

from netdiag.catalog import catalog
from netdiag.errors import InputUnreadable
from netdiag.weights import verify as module
from netdiag.weights.residency import residency
from netdiag.weights.verify import PLANS, Pattern, do, plan_for, to_json, verify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="page caches are asked as Linux does")
MIB = 1 << 20


@pytest.fixture
def model() -> Path:
    path = Path(f"/var/tmp/netdiag-verify-{os.getpid()}")
    path.write_bytes(os.urandom(4 * MIB) + b"tail")
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    return path


@pytest.fixture(autouse=True)
def removed() -> object:
    yield
    Path(f"/var/tmp/netdiag-verify-{os.getpid()}").unlink(missing_ok=True)


def test_plans_are_for_codes_that_exist() -> None:
    assert set(PLANS) <= set(catalog())
    assert plan_for("weights.memory-limit") is None


@pytest.mark.parametrize("pattern", [one for plan in PLANS.values() for one in (plan.before, plan.after)], ids=str)
def test_every_way_reads_all_that_it_should(monkeypatch: pytest.MonkeyPatch, model: Path, pattern: Pattern) -> None:
    brought: list[tuple[int, int]] = []
    plain = os.preadv

    def seen(fd: int, buffers: list[memoryview], at: int) -> int:
        brought.append((at, len(buffers[0])))
        return plain(fd, buffers, at)

    monkeypatch.setattr(os, "preadv", seen)
    do(pattern, str(model), 4 * MIB)
    if pattern.how == "read":
        assert sum(length for _, length in brought) == 4 * MIB
        assert len({at for at, _ in brought}) == len(brought)


def test_pages_stay_where_nobody_allowed_more(model: Path) -> None:
    model.read_bytes()
    found = verify("weights.small-reads", str(model), cold=False, repeats=1)
    assert (found.bytes, found.state) == (4 * MIB, "warm")
    assert found.before_ms > found.after_ms > 0
    assert to_json(found)["code"] == "weights.small-reads"


def test_a_cold_run_is_called_cold(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    found = verify("weights.readahead-off", str(model), cold=True, repeats=1)
    assert found.state == "cold"
    monkeypatch.setattr(module, "residency", lambda *_: None)
    assert verify("weights.small-reads", str(model), cold=False, repeats=1).state == "as-it-was"


def test_a_file_that_is_gone_or_too_short_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputUnreadable, match="No such file"):
        verify("weights.small-reads", str(tmp_path / "none"), cold=False)
    (tmp_path / "short").write_bytes(b"x")
    with pytest.raises(InputUnreadable, match="shorter"):
        verify("weights.small-reads", str(tmp_path / "short"), cold=False)


def test_advice_is_taken_back_with_the_mapping(model: Path) -> None:
    do(Pattern(words="x", how="mmap", advice=mmap.MADV_RANDOM), str(model), MIB)
    fd = os.open(model, os.O_RDONLY)
    assert residency(fd) is not None
    os.close(fd)
