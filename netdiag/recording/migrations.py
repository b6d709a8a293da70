# SPDX-License-Identifier: Apache-2.0
"""Brings the JSON blocks of older recordings to today's shape, one numbered step at a time.

A step names the major version it starts from. Record layouts need no step: each recording carries its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from netdiag.errors import InputUnreadable
from netdiag.recording.format import MAJOR, BlockType

__all__ = ["MIGRATIONS", "Migration", "migrate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step from a major version to the next."""

    start: int
    """The major version that this step reads; it writes start + 1."""
    upgrade: Callable[[BlockType, dict[str, Any]], dict[str, Any]]
    """Takes type and content of a JSON block, returns the new content."""


MIGRATIONS: tuple[Migration, ...] = ()
"""All steps, oldest first. Version 1 is the first that was released."""


def migrate(
    major: int,
    type_: BlockType,
    value: dict[str, Any],
    *,
    steps: Sequence[Migration] = MIGRATIONS,
    target: int = MAJOR,
) -> dict[str, Any]:
    """Return a JSON block of an older recording in the shape of `target`; InputUnreadable where a step is missing."""
    by_start = {step.start: step for step in steps}
    for version in range(major, target):
        if version not in by_start:
            raise InputUnreadable(f"format version {version} cannot be read: no such version was released")
        value = by_start[version].upgrade(type_, value)
    return value
