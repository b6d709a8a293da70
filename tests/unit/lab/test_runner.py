# SPDX-License-Identifier: Apache-2.0
"""The run of a scenario, with a stand-in for netdiag."""

from __future__ import annotations

import json
import os
import sys

import pytest

from netdiag.lab import runner
from netdiag.lab.programs import Programs
from netdiag.lab.scenarios import Scenario

TEXT = """
title = "three calls"
about = ["reuse.client-per-call"]
kind = "healthy"

[client]
library = "stdlib"
habit = "per_call"
calls = 3
gap_s = 0.0

[expect]
quiet = true
"""
STAND_IN = """
import json, pathlib, subprocess, sys
words = sys.argv[1:]
subprocess.run(words[words.index("--") + 1:], check=True)
out = pathlib.Path(words[words.index("-o") + 1])
facts = [json.loads(line) for line in (out.parent / "facts.jsonl").read_text().splitlines()]
config = json.loads((out.parent / "plan.json").read_text())
port = int(config["urls"][0].split(":")[2].split("/")[0])
one = {"role": "client", "remote": {"port": port}, "outcome": "established", "closed_by": "local", "close": "fin"}
accepts = [fact["peer_port"] for fact in facts if fact["event"] == "accept"]
document = {"schema": "netdiag.trace/1", "findings": []}
document["coverage"] = {"events": [{"probe": "tcp", "seen": 1, "lost": 0}]}
document["connections"] = [{**one, "id": "c1", "local": {"port": local}} for local in accepts]
CHANGE
out.write_text(json.dumps(document))
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "three.toml"
    path.write_text(TEXT)
    return Scenario.read(path)


def run(scenario, tmp_path, change="", text=STAND_IN):
    program = tmp_path / "stand-in.py"
    program.write_text(text.replace("CHANGE", change))
    mine = Programs(python=None)
    return runner.run(scenario, seed=3, netdiag=[sys.executable, str(program)], programs=mine, keep=tmp_path / "kept")


def test_a_run_that_agrees_with_the_server_passes(scenario, tmp_path):
    outcome = run(scenario, tmp_path)
    assert outcome.misses == ()
    assert outcome.passed
    assert outcome.report() == "ok   three (seed 3)"
    assert json.loads((tmp_path / "kept" / "trace.json").read_text()) == outcome.document


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ('document["connections"].pop()', "2 established, the server accepted 3"),
        ('document["connections"][0]["closed_by"] = "remote"', "truly local"),
        ('del document["findings"]', "not netdiag.trace/1"),
    ],
)
def test_a_run_that_differs_fails_with_the_reason(scenario, tmp_path, change, says):
    outcome = run(scenario, tmp_path, change)
    assert not outcome.passed
    assert says in outcome.report()


def test_a_netdiag_that_writes_nothing_is_quoted(scenario, tmp_path):
    outcome = run(scenario, tmp_path, text="import sys; sys.exit('no BTF here')")
    assert "no BTF here" in outcome.report()


def test_proxies_of_the_environment_lead_no_client_astray(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    monkeypatch.setenv("HOME", "/home/someone")
    kept = runner.environment()
    assert kept["HOME"] == "/home/someone"
    assert not {"HTTPS_PROXY", "SSL_CERT_FILE"} & set(kept)


@pytest.mark.parametrize(("uid", "sudo", "words"), [(0, "", ["--as-root"]), (0, "1000", []), (1000, "", [])])
def test_root_is_kept_only_where_root_itself_asked(monkeypatch, uid, sudo, words):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setenv("SUDO_UID", sudo)
    assert runner.rights() == words
