# SPDX-License-Identifier: Apache-2.0
"""The layouts of a capture's records: those of the kernel programs, from the BTF of the shipped objects.

A capture does not know all that a kernel knows: members that no packet can show are left out, and so are not known in
any row, instead of being 0.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np

from netdiag import assets, btf, manifest
from netdiag.errors import Unsupported
from netdiag.recording.format import StreamLayout
from netdiag.recording.reader import Records, dtype_of

__all__ = ["layout", "rows", "without_unknown"]

_UNKNOWN = frozenset(
    {
        "cgroup", "netns", "tgid", "tid", "first_io_tgid", "first_io_tid", "io_tids", "comm", "last_read", "unread",
        "sends", "receives", "drops", "accept_queue", "accept_queue_max", "arrived", "max_lag",
        "unacked",
    }
)  # fmt: skip
"""Members that only the machine itself knows: processes, threads, calls, queues, reading."""
_DERIVED = "http"
"""The object that has the structs of the streams that user space makes."""


@functools.cache
def layout(stream: str) -> StreamLayout:
    """Return the layout of a stream by its name in the manifests; KeyError for one that no probe writes."""
    known = [(probe.object, one) for probe in manifest.probes() for one in probe.streams]
    known += [(_DERIVED, one) for one in manifest.derived()]
    for program, one in known:
        if one.name == stream:
            found = btf.structs(_object(program), [one.struct])[one.struct]
            return without_unknown(found.in_ring(stream=one.number, name=stream))
    raise KeyError(stream)


def without_unknown(whole: StreamLayout) -> StreamLayout:
    """Return the layout without the members that no packet can tell."""
    return replace(whole, fields=tuple(field for field in whole.fields if field.name not in _UNKNOWN))


def rows(stream: str, count: int) -> Records:
    """Return `count` records of a stream, all zeros: not known, or did not happen."""
    return np.zeros(count, dtype_of(layout(stream)))


def _object(name: str) -> Path:
    """Return a compiled program: of any processor, for the layouts of all are the same."""
    try:
        return assets.bpf_object(name)
    except Unsupported:
        for path in sorted((assets.data_dir("bpf") / "build").glob(f"*/{name}.bpf.o")):
            return path
        raise
