# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import json

import pytest

from netdiag.catalog import catalog
from netdiag.metrics import metrics
from tests.fakes.commands import call


@pytest.mark.parametrize("code", sorted(catalog()))
def test_every_code_has_a_page(capsys, code):
    called = call(capsys, "explain", code)
    assert called.status == 0
    assert called.out.splitlines()[0] == code
    for label in ("means", "proof", "cost", "refuted", "fix"):
        assert f"\n{label}" in called.out


def test_without_a_code_all_are_listed(capsys):
    codes, _, figures = call(capsys, "explain").out.partition("\n\n")
    assert [line.split()[0] for line in codes.splitlines()] == list(catalog())
    assert all(name in figures for name in metrics())


def test_what_is_not_said_yet_is_marked_in_list_page_and_json(capsys, monkeypatch):
    code = "gpu.fragmentation"
    entries = {**catalog(), code: dataclasses.replace(catalog()[code], unsaid="Nothing looks yet.")}
    monkeypatch.setattr("netdiag.catalog.catalog", lambda: entries)
    listed = call(capsys, "explain").out.partition("\n\n")[0].splitlines()
    assert {line.split()[0] for line in listed if "(not said yet)" in line} == {
        name for name, entry in entries.items() if entry.unsaid
    }
    assert "netdiag does not say this" in call(capsys, "explain", code).out
    assert "netdiag does not say this" not in call(capsys, "explain", "gpu.memory-headroom").out
    (entry,) = json.loads(call(capsys, "explain", code, "--format", "json").out)
    assert entry["unsaid"]


@pytest.mark.parametrize("name", sorted(metrics()))
def test_every_figure_has_a_definition(capsys, name):
    called = call(capsys, "explain", name)
    assert called.status == 0
    assert called.out.splitlines()[0] == f"{name} ({metrics()[name].unit})"
    assert "\nmeans" in called.out
    assert max(map(len, called.out.splitlines())) <= 80


def test_a_definition_as_json(capsys):
    (metric,) = json.loads(call(capsys, "explain", "wait_ms", "--format", "json").out)
    assert metric["name"] == "wait_ms"
    assert ["k6", "http_req_waiting is the same."] in metric["differs"]


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


def test_a_policy_is_simulated(tmp_path, capsys):
    file = tmp_path / "policy.toml"
    file.write_text("[policy]\nattempts = 2\n[load]\nduration_s = 20\n")
    called = call(capsys, "explain", "retry.storm", "--policy", str(file))
    assert called.status == 0
    assert "attempts a call" in called.out
    made = call(capsys, "explain", "retry.storm", "--policy", str(file), "--format", "json")
    assert json.loads(made.out)["load"]["duration_s"] == 20


@pytest.mark.parametrize(
    ("code", "content", "status"),
    [("dns.slow", "", 2), ("retry.storm", "[policy]\nnone = 1", 2), ("retry.storm", "= no TOML", 6)],
)
def test_a_policy_that_cannot_be_simulated(tmp_path, capsys, code, content, status):
    file = tmp_path / "policy.toml"
    file.write_text(content)
    called = call(capsys, "explain", code, "--policy", str(file))
    assert (called.status, called.out) == (status, "")
