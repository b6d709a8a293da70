# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import SimpleNamespace

import pytest

from netdiag import lab
from tests.fakes.commands import call


def test_without_a_name_every_code_is_listed(capsys):
    called = call(capsys, "lab")
    assert called.status == 0
    assert [line.split()[0] for line in called.out.splitlines()] == list(lab.list_codes())


@pytest.mark.parametrize(("misses", "status"), [((), 0), (("missing reuse.x",), 3)])
def test_a_miss_is_status_3(capsys, monkeypatch, misses, status):
    asked = []

    def show(name, *, seed):
        asked.append((name, seed))
        return SimpleNamespace(misses=misses)

    monkeypatch.setattr(lab, "show", show)
    assert call(capsys, "lab", "reuse.x", "--seed", 7).status == status
    assert asked == [("reuse.x", 7)]


def test_an_unknown_name(capsys):
    assert call(capsys, "lab", "no.such-code").status == 2
