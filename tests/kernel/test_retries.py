# SPDX-License-Identifier: Apache-2.0
"""Attempts of real clients against what the server saw: which attempt each request is, and the pauses between them."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from netdiag.lab import Programs, run
from netdiag.lab.facts import Truth
from netdiag.lab.scenarios import Scenario

pytestmark = pytest.mark.kernel

SEED = int(os.environ.get("NETDIAG_SEED") or random.randrange(1_000_000))
CYCLE = (503, 500, 200)
"""Two failures, then a success: so it goes for each call."""
CALLS = 34
SLACK_MS = 12.0
"""The server's stamps wait for a processor, too; one pause in twenty may be later."""
HABITS = {"sdk": 3, "pool": 4, "adapter": 4, "transport": 4, "loop": 4, "client_retry": 4}


def scenario(
    tmp_path: Path, *, habit: str, calls: int, statuses: tuple[int, ...], library: str = "tenacity", **more: object
):
    """Return a scenario made for the occasion."""
    tables = {
        "title": "attempts", "about": [], "timeout_s": 120.0,
        "server": {"tls": True, "answer": {"statuses": list(statuses), **more}},
        "client": {"library": library, "habit": habit, "calls": calls, "tries": 4, "pause_s": 0.05, "gap_s": 0.1},
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


def compared(outcome, folder: Path):
    """Return (attempt, retry_of's place, pause) as told and as true, by time, for every request of the server."""
    truth = Truth.read(folder / "facts.jsonl")
    document = outcome.document
    ports = {entry["id"]: entry["local"]["port"] for entry in document["connections"] if entry["role"] == "client"}
    told = {(ports[entry["connection"]], entry["sequence"]): entry for entry in document["requests"]}
    true = sorted(
        ((fact["began"], connection.peer_port, place, fact) for connection in truth.connections
         for place, fact in enumerate(connection.requests, 1)), key=lambda each: each[0],
    )  # fmt: skip
    return [(told.get((port, place)), fact) for _, port, place, fact in true]


def _pause_ms(before, after) -> float:
    ended = datetime.fromisoformat(before["started"]).timestamp() * 1e3 + before["total_ms"]
    pause: float = datetime.fromisoformat(after["started"]).timestamp() * 1e3 - ended
    return pause


@pytest.mark.parametrize("habit", HABITS)
def test_attempts_and_pauses_are_those_of_the_server(habit, lab_python, tmp_path):
    made = scenario(tmp_path, habit=habit, calls=CALLS, statuses=CYCLE * CALLS)
    if habit == "sdk":  # its own pauses are of half a second and more
        made = scenario(tmp_path, habit=habit, calls=8, statuses=CYCLE * 8)
    outcome = run(made, seed=SEED, programs=Programs(python=lab_python), keep=tmp_path)
    assert outcome.document is not None, outcome.misses
    pairs = compared(outcome, tmp_path)
    assert len(pairs) == len(CYCLE) * (8 if habit == "sdk" else CALLS)
    late = []
    for number, (told, fact) in enumerate(pairs):
        assert told is not None, f"request {number} of {len(pairs)} was not seen"
        place = number % len(CYCLE)
        assert (told["status"], told["attempt"]) == (fact["status"], place + 1), f"request {number}"
        before, earlier = pairs[number - 1]
        assert told["retry_of"] == (before["id"] if place else None), f"request {number}"
        if place:
            true = (fact["began"] - earlier["sent"][-1]) / 1e6
            late += [(number, _pause_ms(before, told), true)] if abs(_pause_ms(before, told) - true) > SLACK_MS else []
    assert len(late) <= len(pairs) / 20, late
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
    assert [told and (told["status"], told["attempt"]) for told, _ in pairs] == [
        (fact["status"], number % 3 + 1) for number, (_, fact) in enumerate(pairs)
    ]


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
