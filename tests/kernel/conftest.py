# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that trace for real. All that they make is gone when the test ends."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from netdiag.processes import cgroup2_mount
from tests.kernel.harness import Namespace, Trace, until


@pytest.fixture
def cleanup() -> Iterator[contextlib.ExitStack]:
    """Return a stack that is unwound at the end of the test."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def keep(cleanup: contextlib.ExitStack) -> Callable[..., Any]:
    """Return a function that has one or more things closed at the end of the test and returns them."""

    def kept(*things: Any) -> Any:
        for thing in things:
            cleanup.callback(thing.close)
        return things[0] if len(things) == 1 else things

    return kept


@pytest.fixture
def trace(cleanup: contextlib.ExitStack, tmp_path: Path) -> Callable[..., Trace]:
    """Return a function that starts a trace; of this process where no other target is named."""
    number = itertools.count()

    def start(**settings: Any) -> Trace:
        return cleanup.enter_context(Trace(tmp_path / f"{next(number)}.ndrec", **settings))

    return start


@pytest.fixture
def network(cleanup: contextlib.ExitStack) -> Namespace:
    """Return a private network namespace."""
    return cleanup.enter_context(Namespace())


@pytest.fixture
def cgroup(cleanup: contextlib.ExitStack) -> Path:
    """Return the folder of a new cgroup; its processes must have ended before the test does."""
    mount = cgroup2_mount()
    if mount is None:
        pytest.skip("needs a cgroup v2 hierarchy")
    folder = mount / f"ndk-{os.getpid()}"
    folder.mkdir()

    def remove() -> None:
        until(lambda: not (folder / "cgroup.procs").read_text())
        for inner in folder.glob("*/"):
            inner.rmdir()
        folder.rmdir()

    cleanup.callback(remove)
    return folder
