# SPDX-License-Identifier: Apache-2.0
"""Older recordings are brought to today's shape step by step."""

from __future__ import annotations

import pytest

from netdiag.errors import InputUnreadable
from netdiag.recording.format import MAJOR, BlockType
from netdiag.recording.migrations import MIGRATIONS, Migration, migrate


def rename(old, new):
    def upgrade(type_, value):
        if type_ is not BlockType.FACT:
            return value
        return {new if name == old else name: item for name, item in value.items()}

    return upgrade


STEPS = (Migration(start=2, upgrade=rename("b", "c")), Migration(start=1, upgrade=rename("a", "b")))


def test_steps_run_in_order_from_the_files_version():
    assert migrate(1, BlockType.FACT, {"a": 1}, steps=STEPS, target=3) == {"c": 1}
    assert migrate(2, BlockType.FACT, {"b": 1}, steps=STEPS, target=3) == {"c": 1}
    assert migrate(3, BlockType.FACT, {"a": 1}, steps=STEPS, target=3) == {"a": 1}


def test_a_step_sees_which_block_it_changes():
    assert migrate(1, BlockType.HEADER, {"a": 1}, steps=STEPS, target=3) == {"a": 1}


def test_a_missing_step_is_said():
    with pytest.raises(InputUnreadable, match="version 0"):
        migrate(0, BlockType.FACT, {})


def test_every_version_since_the_first_has_its_step():
    assert [step.start for step in MIGRATIONS] == list(range(1, MAJOR))
