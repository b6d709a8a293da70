# SPDX-License-Identifier: Apache-2.0
"""From a recording and the machine around it to what is said of a load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from netdiag.findings import Finding
from netdiag.recording.reader import Recording
from netdiag.weights.case import Case
from netdiag.weights.identity import identity
from netdiag.weights.judge import judge
from netdiag.weights.model import Load
from netdiag.weights.reading import load_of
from netdiag.weights.surroundings import Memory, enrich, memory_of

__all__ = ["Examined", "examine", "examine_load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A load and what follows from it."""

    load: Load
    memory: Memory
    findings: tuple[Finding, ...]


def examine(
    recording: Recording, *, candidates: Sequence[str] = (), memory: Memory | None = None, **more: Any
) -> Examined:
    """Return what a recording shows, with what this machine says of its files now.

    `more`: members of the `Load` that others measured (copies). Raises InputUnreadable where the probe did not run.
    """
    return examine_load(load_of(recording), candidates=candidates, memory=memory, **more)


def examine_load(load: Load, *, candidates: Sequence[str] = (), memory: Memory | None = None, **more: Any) -> Examined:
    """Return what a load shows, however it was seen; the arguments are those of `examine`.

    With `later` the files are not looked at: what this machine says of them now was not so then.
    """
    later = bool(more.pop("later", False))
    load = replace(load if later else enrich(load, candidates), **more)
    held = memory or (Memory(total=None, available=None, limit=None) if later else memory_of())
    said = identity(load)
    found = judge(Case(load=load, identity=said, memory=held)) if said else []
    return Examined(load=load, memory=held, findings=tuple(found))
