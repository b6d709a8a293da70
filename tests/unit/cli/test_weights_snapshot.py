# SPDX-License-Identifier: Apache-2.0
"""`netdiag weights snapshot`: memory that is cut up, memory that is not, and files that would run code."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.commands import call

MIB = 1 << 20


def segment(*blocks: tuple[int, bool]) -> dict[str, Any]:
    rows = [{"size": size * MIB, "state": "active_allocated" if live else "inactive"} for size, live in blocks]
    return {"device": 0, "stream": 0, "total_size": sum(size for size, _ in blocks) * MIB, "blocks": rows}


CUT = {"segments": [segment((64, True), (64, False), (64, True), (64, False)) for _ in range(8)]}
WHOLE = {"segments": [segment((1024, False)), segment((1024, True))]}


def saved(folder: Path, snapshot: Any) -> str:
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    return str(path)


def test_memory_that_is_cut_up_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    called = call(capsys, "weights", "snapshot", saved(tmp_path, CUT), "--format", "json")
    (row,) = json.loads(called.out)["findings"]
    assert (row["code"], row["cause"], row["severity"]) == ("gpu.fragmentation", "hard", "info")


@pytest.mark.parametrize(
    ("snapshot", "failed", "told"),
    [
        (WHOLE, None, False),
        (WHOLE, 512 * MIB, False),  # it fits: something else failed
        (CUT, 128 * MIB, True),
        (CUT, 4096 * MIB, False),  # more than is free: no matter how it is cut
    ],
)
def test_an_allocation_that_failed_decides(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, snapshot: Any, failed: int | None, told: bool
) -> None:
    more = () if failed is None else ("--failed", str(failed))
    called = call(capsys, "weights", "snapshot", saved(tmp_path, snapshot), *more)
    assert called.status == 0
    assert ("gpu.fragmentation" in called.out) is told


class Hostile:
    """Would run a command."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def test_a_pickle_that_would_run_code_runs_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    called = call(capsys, "weights", "snapshot", saved(tmp_path, {"segments": [Hostile(tmp_path / "ran")]}))
    assert (called.status, called.out) == (6, "")
    assert not (tmp_path / "ran").exists()
