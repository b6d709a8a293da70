# SPDX-License-Identifier: Apache-2.0
"""Attempts of real clients against what the server saw: which attempt each request is, and the pauses between them."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from netdiag.lab import Outcome, Programs, run
from netdiag.lab.facts import Truth
from netdiag.lab.scenarios import Scenario
from tests.kernel.stamps import Passed, listening

pytestmark = pytest.mark.kernel

Pairs = list[tuple[dict[str, Any], Mapping[str, Any]]]

SEED = int(os.environ.get("NETDIAG_SEED") or random.randrange(1_000_000))
CYCLE = (503, 500, 200)
"""Two failures, then a success: so it goes for each call."""
CALLS = 34 if os.environ.get("NETDIAG_FULL") == "1" else 14
"""34 are more than a hundred attempts."""
SLACK_MS = 3.0
"""Between the stamps of packets and those of the program's calls; one pause in fifty may be further off."""
HABITS = {"sdk": 3, "pool": 4, "adapter": 4, "transport": 4, "loop": 4, "client_retry": 4}


def scenario(
    tmp_path: Path,
    *,
    habit: str,
    calls: int,
    statuses: tuple[int, ...],
    library: str = "tenacity",
    tls: bool = True,
    **more: object,
) -> Scenario:
    """Return a scenario made for the occasion."""
    tables = {
        "title": "attempts", "about": [], "timeout_s": 120.0,
        "server": {"tls": tls, "answer": {"statuses": list(statuses), **more}},
        "client": {"library": library, "habit": habit, "calls": calls, "tries": 4, "pause_s": 0.08, "gap_s": 0.02},
    }  # fmt: skip
    file = tmp_path / "attempts.toml"
    file.write_text(_toml(tables))
    return Scenario.read(file)


def _toml(tables: dict[str, object]) -> str:
    """Return tables as inline TOML, which JSON nearly is."""

    def value(each: object) -> str:
        if isinstance(each, dict):
            return "{ " + ", ".join(f"{name} = {value(one)}" for name, one in each.items()) + " }"
        return json.dumps(each)

    return "\n".join(f"{name} = {value(each)}" for name, each in tables.items()) + "\n"


def compared(outcome: Outcome, folder: Path) -> Pairs:
    """Return every request of the server as it was told and as it was, by time."""
    truth = Truth.read(folder / "facts.jsonl")
    document = outcome.document
    assert document is not None, outcome.misses
    ports = {entry["id"]: entry["local"]["port"] for entry in document["connections"] if entry["role"] == "client"}
    told = {(ports[entry["connection"]], entry["sequence"]): entry for entry in document["requests"]}
    true = sorted(
        ((fact["began"], connection.peer_port, place, fact) for connection in truth.connections
         for place, fact in enumerate(connection.requests, 1)), key=lambda each: each[0],
    )  # fmt: skip
    assert all((port, place) in told for _, port, place, _ in true), "requests were not seen"
    return [(told[port, place], fact) for _, port, place, fact in true]


def _pause_ms(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    ended = datetime.fromisoformat(before["started"]).timestamp() * 1e3 + before["total_ms"]
    pause: float = datetime.fromisoformat(after["started"]).timestamp() * 1e3 - ended
    return pause


def late_pauses(outcome: Outcome, pairs: Pairs, passed: Passed) -> list[tuple[int, float, float]]:
    """Return (place, pause as told, as it passed the wire) where the two differ.

    A request is over when the program has read its answer: what lay in the socket is part of the pause on the wire.
    """
    assert outcome.document is not None
    (port,) = {entry["remote"]["port"] for entry in outcome.document["connections"]}
    true = [pause for _, pause in passed.pauses_ms(port)]
    assert len(true) == len(pairs) - 1, "packets were missed"
    told = [_pause_ms(before, after) + before["reader_lag_ms"] for (before, _), (after, _) in pairwise(pairs)]
    each = enumerate(zip(told, true, strict=True), 1)
    return [(number, one, other) for number, (one, other) in each if abs(one - other) > SLACK_MS]


@pytest.mark.parametrize("habit", HABITS)
def test_attempts_and_pauses_are_those_of_the_wire(habit: str, lab_python: str, tmp_path: Path) -> None:
    calls = CALLS // 4 if habit == "sdk" else CALLS  # its own pauses are of half a second and more
    made = scenario(tmp_path, habit=habit, calls=calls, statuses=CYCLE * calls, tls=False)
    with listening() as passed:
        outcome = run(made, seed=SEED, programs=Programs(python=lab_python), keep=tmp_path)
    assert outcome.document is not None, outcome.misses
    pairs = compared(outcome, tmp_path)
    assert len(pairs) == len(CYCLE) * calls
    for number, (told, fact) in enumerate(pairs):
        place = number % len(CYCLE)
        assert (told["status"], told["attempt"]) == (fact["status"], place + 1), f"request {number}"
        assert told["retry_of"] == (pairs[number - 1][0]["id"] if place else None), f"request {number}"
    late = late_pauses(outcome, pairs, passed)
    assert len(late) <= len(pairs) / 50, late
    (finding,) = [each for each in outcome.document["findings"] if each["code"] == "retry.attempts"]
    assert finding["count"] == len(pairs) // len(CYCLE) * (len(CYCLE) - 1)


@pytest.mark.parametrize("habit", ["sdk", "pool", "adapter"])
def test_clients_that_wait_as_long_as_the_server_asks(habit, lab_python, tmp_path):
    made = scenario(tmp_path, habit=habit, calls=3, statuses=(429, 200) * 3, retry_after=1.0)
    outcome = run(made, seed=SEED, programs=Programs(python=lab_python), keep=tmp_path)
    assert outcome.document is not None, outcome.misses
    codes = [finding["code"] for finding in outcome.document["findings"]]
    assert "retry.after-ignored" not in codes
    assert "http.rate-limited" in codes
    pairs = compared(outcome, tmp_path)
    pauses = [_pause_ms(pairs[at][0], pairs[at + 1][0]) for at in range(0, 6, 2)]
    assert all(980 <= pause <= 1400 for pause in pauses), pauses


def test_a_loop_around_node_s_fetch(tmp_path, lab_python):
    if not shutil.which("node"):
        pytest.skip("needs node")
    made = scenario(tmp_path, habit="retries", calls=5, statuses=CYCLE * 5, library="node")
    outcome = run(made, seed=SEED, programs=Programs(python=lab_python), keep=tmp_path)
    pairs = compared(outcome, tmp_path)
    assert len(pairs) == len(CYCLE) * 5
    assert [(told["status"], told["attempt"]) for told, _ in pairs] == [
        (fact["status"], number % 3 + 1) for number, (_, fact) in enumerate(pairs)
    ]


def test_the_sdk_on_node(tmp_path: Path, lab_python: str) -> None:
    tests = Path(__file__).resolve().parents[1]
    if not (tests.parent / ".cache" / "npm" / "node_modules" / "openai").exists():
        pytest.skip("openai is not in .cache/npm: scripts/setup installs it")
    made = scenario(tmp_path, habit="sdk", calls=3, statuses=CYCLE * 3, library="sdk.mjs", tls=False)
    programs = Programs(python=lab_python, extra={"sdk.mjs": str(tests / "clients" / "sdk.mjs")})
    with listening() as passed:
        outcome = run(made, seed=SEED, programs=programs, keep=tmp_path)
    pairs = compared(outcome, tmp_path)
    assert len(pairs) == len(CYCLE) * 3
    assert [(told["status"], told["attempt"]) for told, _ in pairs] == [
        (fact["status"], number % 3 + 1) for number, (_, fact) in enumerate(pairs)
    ]
    assert not late_pauses(outcome, pairs, passed)


def test_a_loop_in_go(tmp_path, lab_python):
    if not shutil.which("go"):
        pytest.skip("needs go")
    program = tmp_path / "habits"
    env = {**os.environ, "GOPROXY": "off", "GOCACHE": str(tmp_path / "cache")}
    source = str(Path(__file__).parents[1] / "clients" / "habits.go")
    subprocess.run(["go", "build", "-o", str(program), source], check=True, env=env, capture_output=True)
    made = scenario(tmp_path, habit="retries", calls=5, statuses=CYCLE * 5, library="go")
    programs = Programs(python=lab_python, extra={"go": str(program)})
    outcome = run(made, seed=SEED, programs=programs, keep=tmp_path)
    told = [each for each, _ in compared(outcome, tmp_path)]
    if any(each["source"] != "plaintext" for each in told):
        assert all(each["attempt"] is None for each in told), "nobody knows which attempt a small answer ended"
    else:
        assert [each["attempt"] for each in told] == [1, 2, 3] * 5
