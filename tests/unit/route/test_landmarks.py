# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.errors import InputUnreadable
from netdiag.route.landmarks import chosen, load, nearest, resolved


def test_nobody_is_asked_by_default():
    assert chosen("none") == ()


def test_the_nearest_ones_are_chosen():
    names = [mark.name for mark in nearest(chosen("cloud"), 52.5, 13.4)]
    assert names[0] == "aws-eu-central-1"
    assert len(names) == 6


def test_without_a_place_one_of_each_region():
    marks = nearest(chosen("cloud"), None, None)
    assert 6 <= len(marks) <= 12


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "marks"
    path.write_text("# mine\nhome 192.0.2.1 443 50.1 8.7\n\nname host.example.com 8443 1 2 # far\n")
    marks = chosen(str(path))
    assert [(mark.name, mark.host, mark.port) for mark in marks] == [
        ("home", "192.0.2.1", 443), ("name", "host.example.com", 8443)
    ]  # fmt: skip
    assert [mark.host for mark in resolved(marks, lambda _name: [])] == ["192.0.2.1"]
    assert [mark.host for mark in resolved(marks, lambda _name: ["192.0.2.9"])] == ["192.0.2.1", "192.0.2.9"]


@pytest.mark.parametrize("line", ["a b", "a b c d e", "a b 0 1 2", "a b 443 99 2", "a b 443 1 999"])
def test_a_wrong_line_is_named(tmp_path, line):
    path = tmp_path / "marks"
    path.write_text(f"ok 192.0.2.1 443 1 2\n{line}\n")
    with pytest.raises(InputUnreadable, match="line 2"):
        load(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputUnreadable):
        load(tmp_path / "none")
    many = tmp_path / "many"
    many.write_text("x 192.0.2.1 443 1 2\n" * 201)
    with pytest.raises(InputUnreadable, match="too many"):
        load(many)
