# SPDX-License-Identifier: Apache-2.0
"""Namespaces of processes, with a /proc that the test makes up."""

from __future__ import annotations

import os

import pytest

from netdiag.recorder import namespaces
from netdiag.recorder.namespaces import Namespaces


@pytest.fixture
def living(monkeypatch):
    """Return pid → inode of its network namespace, which the module believes in."""
    table: dict[int, int] = {}
    monkeypatch.setattr(namespaces, "_inode", table.get)
    return table


def test_the_own_namespace_is_not_looked_at_twice():
    places = Namespaces()
    places.note(os.getpid())
    assert list(places.paths()) == []


def test_one_path_for_each_namespace(living):
    places = Namespaces()
    living.update({11: 900, 12: 901, 13: 900})
    places.note_all(living)
    assert list(places.paths()) == ["/proc/13/ns/net", "/proc/12/ns/net"]


def test_a_namespace_is_found_through_whoever_is_left_in_it(living):
    places = Namespaces()
    living.update({11: 900, 12: 900})
    places.note_all(living)
    del living[12]
    assert list(places.paths()) == ["/proc/11/ns/net"]
    living[11] = 901  # it moved, and nobody is left
    assert list(places.paths()) == []
    living[11] = 900
    assert list(places.paths()) == [], "a namespace that was left is forgotten"


@pytest.mark.usefixtures("living")
def test_a_process_that_is_gone_is_passed_over():
    places = Namespaces()
    places.note(4711)
    assert list(places.paths()) == []


def test_there_is_a_limit_to_namespaces_and_to_processes(living):
    places = Namespaces()
    living.update({pid: 900 + pid for pid in range(1, 1000)})
    places.note_all(living)
    assert len(list(places.paths())) == 128
    living.update(dict.fromkeys(range(2000, 3000), 901))
    places.note_all(range(2000, 3000))
    assert len(places._holders[901]) == 16


def test_without_a_name_the_whole_machine_is_meant():
    places = Namespaces()
    places.note_all([])
    assert all(path.startswith("/proc/") for path in places.paths())
