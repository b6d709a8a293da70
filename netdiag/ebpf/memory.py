# SPDX-License-Identifier: Apache-2.0
"""Keeps a process small: glibc's allocator gives back what is freed. And to itself: nobody else sees its memory."""

from __future__ import annotations

import ctypes

__all__ = ["hold_little", "leave_no_core"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MALLOC = {_M_ARENA_MAX: 1, _M_MMAP_THRESHOLD: 64 * 1024, _M_TRIM_THRESHOLD: 64 * 1024}
"""Of mallopt(3): one arena for all threads, and free memory goes back to the kernel early."""
_PR_SET_DUMPABLE = 4


def hold_little() -> bool:
    """Tell the allocator so; return whether there was one that listens (other C libraries have no such switches)."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False
    return all(libc.mallopt(parameter, value) for parameter, value in _MALLOC.items())


def leave_no_core() -> None:
    """Leave no image of this process's memory, whatever ends it, and let no other process of the user read it."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
