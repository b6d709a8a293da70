# SPDX-License-Identifier: Apache-2.0
"""Files of a process: which are looked at, and in which order their parts come into memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from netdiag.weights import holding
from netdiag.weights.holding import Held, Holdings
from netdiag.weights.residency import Residency, residency
from netdiag.weights.tasks import Process

MIB = 1 << 20


def held(size: int = 64 * MIB) -> Held:
    return Held(pid=1, path="/m", device=1, inode=2, size=size, began_ns=0, ended_ns=0, cached_first=0, cached_last=0,
                fd=1000)  # fmt: skip


@pytest.mark.parametrize(
    ("order", "steps"),
    [
        (range(64), (63, 0)),
        (range(63, -1, -1), (0, 63)),
        ([0, 40, 3, 50, 7, 60], (3, 2)),
    ],
)
def test_parts_that_come_one_after_the_other_are_steps(
    monkeypatch: pytest.MonkeyPatch, order: Sequence[int], steps: tuple[int, int]
) -> None:
    here: set[int] = set()

    def asked(_fd: int, offset: int = 0, length: int = 0) -> Residency:
        found = length if offset // MIB in here and length else len(here) * MIB
        return Residency(cached=found if not length or offset // MIB in here else 0, dirty=0, evicted=0,
                         recently_evicted=0)  # fmt: skip

    monkeypatch.setattr(holding, "residency", asked)
    file = held()
    for part in order:
        here.add(part)
        file.look(part)
    assert (file.forward, file.backward) == steps


def test_open_and_mapped_files_of_a_process_are_found(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"x" * 2 * MIB)
    (tmp_path / "small").write_bytes(b"x")
    holdings = Holdings()
    holdings.expect(str(tmp_path))
    fd = os.open(path, os.O_RDONLY)
    try:
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ):
            holdings.look(Process(pid=os.getpid()), 5, thorough=True)
            mine = [one for one in holdings.all() if one.path == str(path)]
    finally:
        os.close(fd)
    (file,) = mine
    assert (file.size, file.opened, file.mapped) == (2 * MIB, True, True)
    holdings.let_go(os.getpid())
    assert file.fd == -1


def test_what_a_folder_holds_is_looked_at_before_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"x" * MIB)
    (tmp_path / "log.txt").write_bytes(b"x" * MIB)
    holdings = Holdings()
    holdings.expect(str(tmp_path))
    holdings.expect(str(tmp_path / "none"))
    holdings.expect("a\0b")
    (before,) = holdings.expected.values()
    if residency_is_known(tmp_path / "a.safetensors"):
        assert before == MIB


def residency_is_known(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        return residency(fd) is not None
    finally:
        os.close(fd)
