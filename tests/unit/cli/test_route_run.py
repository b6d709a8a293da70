# SPDX-License-Identifier: Apache-2.0
"""Whole commands on stored probes, and live ones with a prober that answers from them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from netdiag.cli import route_run
from netdiag.route.lab import proof
from netdiag.route.lab.proof import Check
from netdiag.route.prober import FakeProber
from tests.fakes.commands import call
from tests.fakes.routes import IP, REPLAYS, boomerang

NANOG = REPLAYS / "nanog-mpls.json"
MUMBAI = REPLAYS / "mumbai-singapore.json"


def test_stored_probes_are_judged_again(capsys):
    called = call(capsys, "route-check", "--replay", MUMBAI)
    assert called.status == 0
    assert called.out.startswith("DETOUR SUSPECTED  served from Singapore though Mumbai is near")


def test_its_own_json_gives_the_same_bytes(capsys, tmp_path, root):
    first = tmp_path / "first.json"
    assert call(capsys, "route-check", "--replay", NANOG, "--format", "json", "-o", first).status == 0
    again = call(capsys, "route-check", "--replay", first, "--format", "json")
    assert again.out == first.read_text()
    schema = json.loads((root / "reports/schemas/netdiag.route-1.json").read_text())
    jsonschema.validate(json.loads(again.out), schema)


def test_options_change_the_judgement(capsys):
    given = call(capsys, "route-check", "--replay", MUMBAI, "--baseline-ms", "60", "--format", "json")
    assert json.loads(given.out)["detour"]["verdict"] == "none"
    moved = call(capsys, "route-check", "--replay", MUMBAI, "--vantage", "1.35,103.9", "--format", "json")
    assert json.loads(moved.out)["vantage"]["city"] == "Singapore"


def test_gates(capsys):
    assert call(capsys, "route-check", "--replay", MUMBAI, "--fail-on", "warning").status == 3
    assert call(capsys, "route-check", "--replay", MUMBAI, "--fail-on", "critical").status == 0
    assert call(capsys, "route-check", "--replay", MUMBAI, "--assert", "rtt_ms<60").status == 3
    assert call(capsys, "route-check", "--replay", MUMBAI, "--assert", "rtt_ms<70").status == 0


def test_accepted_findings(capsys, tmp_path):
    config = tmp_path / "netdiag.toml"
    config.write_text('[[ignore]]\ncode = "route.steering"\nreason = "known"\nexpires = 2099-01-01\n')
    called = call(
        capsys, "route-check", "--replay", MUMBAI, "--config", config, "--fail-on", "info", "--format", "json"
    )
    assert called.status == 0
    assert json.loads(called.out)["ignored"][0]["reason"] == "known"


def test_a_page_by_its_name(capsys, tmp_path):
    page = tmp_path / "route.html"
    assert call(capsys, "route-check", "--replay", NANOG, "-o", page).status == 0
    assert page.read_text().startswith("<!doctype html>")


def test_a_pair(capsys):
    called = call(capsys, "route-check", "--pair", NANOG, MUMBAI)
    assert called.status == 0
    assert "│" in called.out


def test_loads_and_the_choice(capsys, tmp_path):
    loads, choice = tmp_path / "loads", tmp_path / "choice.json"
    loads.write_text("SIN 91\n")
    called = call(
        capsys,
        "route-check",
        "--replay",
        MUMBAI,
        "--load",
        loads,
        "--score",
        "load",
        "--write",
        choice,
        "--format",
        "json",
    )
    (pop,) = json.loads(called.out)["pops"]
    assert (pop["action"], pop["load_pct"]) == ("enable-neighbour", 91.0)
    assert pop["score"] == pytest.approx(pop["rtt_ms"] * 1.91)
    assert json.loads(choice.read_text())["choice"] == "104.26.11.161"


@pytest.fixture
def live(monkeypatch, tmp_path):
    """Let the command measure with a prober that sends nothing, and keep its history in a folder of the test."""
    prober = FakeProber(boomerang())
    monkeypatch.setattr(route_run, "LiveProber", lambda _base_ns: prober)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return prober


@pytest.mark.parametrize("watch", [[], ["--watch"]])
def test_what_is_asserted_is_checked_before_anything_is_sent(capsys, live, watch):
    called = call(capsys, "route-check", IP, "--no-keep", "--assert", "reuse>1", *watch)
    assert called.status == 2
    assert live.requests == []


def test_what_can_be_asserted_is_the_summary_and_unknown_loss_is_no_loss(capsys):
    called = call(capsys, "route-check", "--replay", NANOG, "--format", "json")
    summary = json.loads(called.out)["summary"]
    assert tuple(summary) == route_run.ASSERTED
    assert {one["loss"]["sent"] for one in json.loads(called.out)["addresses"]} == {0}
    assert summary["lost"] is None
    assert call(capsys, "route-check", "--replay", NANOG, "--assert", "lost==0").status == 3


def test_a_check_is_kept_and_can_be_judged_again(capsys, live, tmp_path):
    called = call(capsys, "route-check", IP, "-n", "--no-http", "--vantage", "52.5,13.4", "--baseline-ms", "12")
    assert called.status == 0
    assert live.requests
    assert "NO DETOUR" in called.out or "UNKNOWN" in called.out or "DETOUR" in called.out
    (kept,) = (tmp_path / "netdiag").glob("route-*.json")
    again = call(capsys, "route-check", "--replay", kept)
    assert again.out.splitlines()[0] == called.out.splitlines()[0]
    assert str(kept.name) in called.out.replace("\n         ", "")


def test_nothing_is_kept_where_nothing_shall_be(capsys, live, tmp_path):
    assert call(capsys, "route-check", IP, "-n", "--no-http", "--no-keep").status == 0
    assert not (tmp_path / "netdiag").exists()
    assert live.requests


def test_watching_ends_with_the_last_result(capsys, live, monkeypatch):
    looks = []

    def pause(_seconds):
        looks.append(1)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("netdiag.cli.route_run.time.sleep", pause)
    called = call(
        capsys, "route-check", IP, "-n", "--no-http", "--watch", "--baseline-ms", "12", "--vantage", "52.5,13.4"
    )
    assert called.status == 0
    assert len(looks) == 3
    assert called.err.count("suspect:") + called.err.count("unknown:") + called.err.count("none:") == 1
    assert called.out
    assert live.requests


def test_old_tables_are_told(capsys, monkeypatch):
    monkeypatch.setattr(route_run, "stale", lambda _sources, _today: ["the table is 200 days old"])
    called = call(capsys, "route-check", "--replay", NANOG)
    assert "200 days old" in called.err


def test_a_stored_check_from_standard_input(capsys, monkeypatch):
    class Input:
        buffer = Path(NANOG).open("rb")  # noqa: SIM115 - closed by the next line but one

    monkeypatch.setattr("netdiag.cli.route_run.sys.stdin", Input)
    called = call(capsys, "route-check", "--replay", "-")
    Input.buffer.close()
    assert called.status == 0


@pytest.mark.parametrize(("right", "status"), [(True, 0), (False, 3)])
def test_the_self_test_says_what_was_right(capsys, monkeypatch, right, status):
    checks = (Check(what="distance", right=True, note="7 of 7"), Check(what="routers", right=right, note="x"))
    monkeypatch.setattr(proof, "prove", lambda: proof.Proof(topology="plain", checks=checks, largest_error_ms=0.1))
    called = call(capsys, "route-check", "--selftest")
    assert called.status == status
    assert called.out.splitlines()[-1] == f"{1 + right} of 2 right on the network 'plain'"


@pytest.mark.parametrize(
    "proxy",
    [
        "http://user:secret@proxy.example:3128/",
        "http://user:sec/ret@proxy.example:3128",
        "user:secret@proxy.example:3128",
        "proxy.example:3128/secret",
        "http://proxy.example:3128/secret?secret",
    ],
)
def test_a_proxy_is_named_without_its_password(capsys, live, monkeypatch, proxy):
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    called = call(capsys, "route-check", IP, "-n", "--no-http", "--no-keep")
    assert "the proxy proxy.example:3128 (" in " ".join(called.out.split())
    assert "sec" not in (called.out + called.err).replace("second", "")
    monkeypatch.setenv("no_proxy", IP)
    assert "proxy" not in call(capsys, "route-check", IP, "-n", "--no-http", "--no-keep").err
    assert live.requests


def test_checks_from_elsewhere_count_for_nothing(capsys, live):
    here, there = ("--vantage", "52.5,13.4"), ("--vantage", "40.7,-74.0")
    for _ in range(5):
        call(capsys, "route-check", IP, "-n", "--no-http", *there, "--baseline-ms", "88")
    found = call(capsys, "route-check", IP, "-n", "--no-http", *here, "--format", "json")
    assert json.loads(found.out)["inputs"]["earlier"] == []
    again = call(capsys, "route-check", IP, "-n", "--no-http", *there, "--format", "json")
    assert len(json.loads(again.out)["inputs"]["earlier"]) == 5
    assert json.loads(again.out)["baseline"]["source"] == "history"
    assert live.requests


def test_whom_load_asks_is_listed(capsys, live, monkeypatch):
    monkeypatch.setattr("netdiag.route.loads.read", lambda _source: {"FRA": 50.0})
    url = "https://user:secret@metrics.example:8443/load?token=1"
    called = call(capsys, "route-check", IP, "-n", "--no-http", "--no-keep", "--load", url, "--format", "json")
    rows = [row for row in json.loads(called.out)["asked"] if row["purpose"] == "load"]
    assert rows == [{"purpose": "load", "address": "metrics.example", "port": 8443, "count": 1}]
    assert "secret" not in called.out + called.err
    assert live.requests
