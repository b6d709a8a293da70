# SPDX-License-Identifier: Apache-2.0
"""The allocator of the recorder gives back what is freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

GROWS_AND_SHRINKS = """
import sys
from netdiag.ebpf.memory import hold_little

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

assert hold_little()
before = resident()
blocks = [bytearray(100_000) for _ in range(200)]
grown = resident() - before
del blocks
left = resident() - before
sys.exit(0 if grown > 15_000_000 and left < grown / 4 else f"grew by {grown}, {left} left")
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_what_is_freed_goes_back_to_the_kernel() -> None:
    done = subprocess.run([sys.executable, "-c", GROWS_AND_SHRINKS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
