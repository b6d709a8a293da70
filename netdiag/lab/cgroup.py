# SPDX-License-Identifier: Apache-2.0
"""A cgroup with a limit of CPU time for the lab's client, both versions. Needs root."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netdiag.errors import Unsupported

__all__ = ["limited"]

PERIOD_US = 100_000
ROOT = Path("/sys/fs/cgroup")


@contextmanager
def limited(share: float, root: Path = ROOT) -> Iterator[list[str]]:
    """Make a cgroup that may use `share` of one processor; yields the words to put before a command that runs in it.

    Unsupported where there is no such controller or no right to use it.
    """
    folder = _folder(root) / f"ndlab-{os.getpid()}-{time.monotonic_ns() % 1_000_000}"
    quota = int(share * PERIOD_US)
    try:
        folder.mkdir()
        if (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise Unsupported(f"no limit of CPU time can be set here: {error}", hint="it needs root") from error
    try:
        yield ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh"]
    finally:
        _remove(folder)


def _folder(root: Path) -> Path:
    if (root / "cpu").is_dir():  # version 1
        return root / "cpu"
    with contextlib.suppress(OSError):
        (root / "cgroup.subtree_control").write_text("+cpu")
    return root


def _remove(folder: Path) -> None:
    for _ in range(20):  # its last process may still be on its way out
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.05)
        else:
            return
