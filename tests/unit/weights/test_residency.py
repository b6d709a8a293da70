# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os

import pytest

from netdiag.weights.residency import residency

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def fd(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * (16 * PAGE))
    fd = os.open(path, os.O_RDONLY)
    if residency(fd) is None:
        os.close(fd)
        pytest.skip("the kernel has no cachestat(2): Linux 6.5 is the first with it")
    yield fd
    os.close(fd)


def cached(fd: int, offset: int = 0, length: int = 0) -> int:
    found = residency(fd, offset, length)
    assert found is not None
    return found.cached


def test_what_was_just_written_is_in_memory(fd):
    assert cached(fd) == 16 * PAGE


def test_a_range_is_counted_alone(fd):
    assert cached(fd, 4 * PAGE, 3 * PAGE) == 3 * PAGE
    assert cached(fd, 64 * PAGE, PAGE) == 0


def test_what_the_kernel_refuses_is_not_known(fd):
    assert residency(-1) is None
    closed = os.dup(fd)
    os.close(closed)
    assert residency(closed) is None
