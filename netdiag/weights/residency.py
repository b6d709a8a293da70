# SPDX-License-Identifier: Apache-2.0
"""Which part of a file is in memory, asked of the kernel: cachestat(2), Linux 6.5 and newer. Nothing is read by it."""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass

__all__ = ["Residency", "residency"]

_CACHESTAT = 451
"""The same number on all architectures: include/uapi/asm-generic/unistd.h."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """Bytes of a range of a file."""

    cached: int
    dirty: int
    evicted: int
    """Were in memory and have left it."""
    recently_evicted: int
    """Of them those whose return would mean that memory is too small."""


def residency(fd: int, offset: int = 0, length: int = 0) -> Residency | None:
    """Return what is known of a range, to the end with length 0; None where the kernel cannot or may not say."""
    libc = ctypes.CDLL(None, use_errno=True)
    span = ctypes.create_string_buffer(struct.pack("=QQ", offset, length))
    found = ctypes.create_string_buffer(40)
    if libc.syscall(_CACHESTAT, fd, span, found, 0):
        return None
    cached, dirty, _, evicted, recent = (value * _PAGE for value in struct.unpack("=5Q", found.raw))
    return Residency(cached=cached, dirty=dirty, evicted=evicted, recently_evicted=recent)
