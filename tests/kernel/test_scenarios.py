# SPDX-License-Identifier: Apache-2.0
"""Every scenario, run for real: connections equal to the server's facts, the right findings, silence where all is well.

Each run draws its numbers anew and prints the seed; NETDIAG_SEED repeats one. NETDIAG_FULL=1 runs all scenarios, not
only those marked `fast`; NETDIAG_REPEAT=N runs each N times.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from netdiag.lab import Programs, load_all, run

pytestmark = pytest.mark.kernel

TESTS = Path(__file__).resolve().parents[1]
SCENARIOS = load_all([TESTS.parent / "netdiag" / "lab" / "scenarios", TESTS / "scenarios"])
FULL = os.environ.get("NETDIAG_FULL") == "1"
REPEAT = int(os.environ.get("NETDIAG_REPEAT", "1"))
CHOSEN = [name for name, scenario in SCENARIOS.items() if FULL or scenario.fast]
SEED = int(os.environ.get("NETDIAG_SEED") or random.randrange(1_000_000))


@pytest.fixture(scope="session")
def programs(lab_python, tmp_path_factory):
    """Return the client programs: the libraries' interpreter, and a Go program where there is a compiler."""
    extra = {}
    if FULL and shutil.which("go"):
        folder = tmp_path_factory.mktemp("go")
        program = folder / "habits"
        env = {**os.environ, "GOPROXY": "off", "GOCACHE": str(folder / "cache")}
        source = str(TESTS / "clients" / "habits.go")
        subprocess.run(["go", "build", "-o", str(program), source], check=True, env=env, capture_output=True)
        extra["go"] = str(program)
    return Programs(python=lab_python, extra=extra)


@pytest.mark.parametrize("turn", range(REPEAT))
@pytest.mark.parametrize("name", CHOSEN)
def test_scenario(name, turn, programs, tmp_path):
    if SCENARIOS[name].tables["client"]["library"] == "go" and "go" not in programs.extra:
        pytest.skip("needs go")
    outcome = run(SCENARIOS[name], seed=SEED + turn, programs=programs, keep=tmp_path)
    assert outcome.passed, f"{outcome.report()}\n     repeat with NETDIAG_SEED={SEED + turn}"
