# SPDX-License-Identifier: Apache-2.0
"""What `netdiag demo` and `netdiag lab` do: a run that a person watches."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from netdiag.errors import UsageError
from netdiag.lab import network
from netdiag.lab.programs import STANDARD, Programs
from netdiag.lab.runner import NETDIAG, Outcome, environment, lend, rights, run, serve, urls
from netdiag.lab.scenarios import Scenario, shipped

__all__ = ["demo", "list_codes", "show"]

DEMO = "client-per-call"


def list_codes() -> dict[str, Scenario]:
    """Return a finding code → the scenario that shows it, in the order of codes."""
    positive = [scenario for scenario in shipped().values() if scenario.kind == "positive"]
    return dict(sorted((code, scenario) for scenario in positive for code in scenario.about[:1]))


def find(name: str) -> Scenario:
    """Return the scenario of that name, or the one that shows that code; unknown names raise UsageError."""
    by_name = shipped()
    by_code = list_codes()
    if name in by_name or name in by_code:
        return by_name.get(name) or by_code[name]
    raise UsageError(f"the lab has no scenario {name}", hint="`netdiag lab` lists them")


def demo(*, netdiag: Sequence[str] = NETDIAG, seed: int = 1, out: TextIO = sys.stderr) -> int:
    """Trace a client that opens a connection for every call to a local LLM-like API; return netdiag's exit status.

    Needs nothing but the standard library and the `openssl` command. The findings go where `netdiag trace` puts them.
    """
    return watch(find(DEMO), seed=seed, netdiag=netdiag, out=out)


def watch(scenario: Scenario, *, seed: int, netdiag: Sequence[str], out: TextIO) -> int:
    """Run a scenario on the standard library with netdiag's own output for a person; return its exit status."""
    programs = Programs(python=None)
    situation = scenario.draw(seed, libraries=STANDARD)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="netdiag-lab-")))
        lend(folder)
        net = network.of(situation.network)
        stack.enter_context(net)
        server = stack.enter_context(serve(situation.server, folder, net))
        net.armed(server.port)
        argv = net.for_client(programs.argv(situation.client, urls(situation, net.address, server.port), folder))
        print(f"lab: {scenario.title}", f"     server {terms(situation.server)}", sep="\n", file=out)
        print(f"     client {terms(situation.client)} · seed {seed}", file=out, flush=True)
        command = [*netdiag, "trace", *rights(), "--", *argv]
        return subprocess.run(command, env=environment(), check=False).returncode


def show(name: str, *, seed: int, netdiag: Sequence[str] = NETDIAG, out: TextIO = sys.stdout) -> Outcome:
    """Run the scenario of a name or code, compare it with the server's facts and print what was said."""
    outcome = run(find(name), seed=seed, netdiag=netdiag)
    print(outcome.report(), file=out)
    for finding in outcome.document["findings"] if outcome.document else []:
        print(f"{finding['severity']:8} {finding['code']:28} {finding['confidence']:.2f}  {finding['title']}", file=out)
    return outcome


def terms(table: Mapping[str, object]) -> str:
    """Return a table's entries on one line."""
    return ", ".join(f"{name} {value}" for name, value in table.items()) or "healthy"
