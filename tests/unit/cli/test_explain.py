# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from netdiag.catalog import catalog
from tests.fakes.commands import call


@pytest.mark.parametrize("code", sorted(catalog()))
def test_every_code_has_a_page(capsys, code):
    called = call(capsys, "explain", code)
    assert called.status == 0
    assert called.out.splitlines()[0] == code
    for label in ("means", "proof", "cost", "refuted", "fix"):
        assert f"\n{label}" in called.out


def test_without_a_code_all_are_listed(capsys):
    listed = [line.split()[0] for line in call(capsys, "explain").out.splitlines()]
    assert listed == list(catalog())


def test_json(capsys):
    (entry,) = json.loads(call(capsys, "explain", "reuse.client-per-call", "--format", "json").out)
    assert entry["code"] == "reuse.client-per-call"
    assert entry["remedies"]


def test_a_code_that_is_nearly_right(capsys):
    called = call(capsys, "explain", "reuse.clientpercall")
    assert called.status == 2
    assert "reuse.client-per-call" in called.err
    assert "lists all codes" in call(capsys, "explain", "zzz").err


def test_colour(capsys):
    assert "\x1b[1m" in call(capsys, "explain", "reuse.client-per-call", "--color", "always").out
    assert "\x1b" not in call(capsys, "explain", "reuse.client-per-call").out
