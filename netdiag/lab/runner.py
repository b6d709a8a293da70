# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario: a server that misbehaves, a client under `netdiag trace`, and the comparison with the truth."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from netdiag.errors import Unsupported
from netdiag.lab import network
from netdiag.lab.asked import compare_questions
from netdiag.lab.cgroup import limited
from netdiag.lab.facts import Truth
from netdiag.lab.judge import compare
from netdiag.lab.programs import Programs
from netdiag.lab.proxy import Proxy, free_port
from netdiag.lab.scenarios import Scenario, Situation
from netdiag.lab.tunnel import Tunnel

__all__ = ["NETDIAG", "Outcome", "RunningServer", "run", "serve"]

NETDIAG = (sys.executable, "-m", "netdiag")
FOREIGN_ENVIRONMENT = re.compile(r"(?i)_proxy$|^SSL_CERT_|_CA_BUNDLE$|^SSLKEYLOGFILE$|^NODE_EXTRA_CA")
PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run gave."""

    situation: Situation
    misses: tuple[str, ...]
    """What differs from the truth or from what the scenario expects; empty = passed."""
    document: Mapping[str, Any] | None
    """The parsed `netdiag.trace/1` output; None where there was none."""
    messages: str
    """What netdiag wrote to stderr."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.misses

    def report(self) -> str:
        """Return a line for the run and one for each miss."""
        head = f"{'ok  ' if self.passed else 'FAIL'} {self.situation.label}"
        return "\n".join([head, *(f"     {miss}" for miss in self.misses)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """The lab's server as a process."""

    pid: int
    port: int
    facts: Path


def run(
    scenario: Scenario,
    *,
    seed: int,
    netdiag: Sequence[str] = NETDIAG,
    programs: Programs | None = None,
    keep: Path | None = None,
) -> Outcome:
    """Run one scenario once. `keep` is a folder in which the files of the run are left."""
    programs = programs or Programs()
    situation = scenario.draw(seed, libraries=programs.at_hand())
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="netdiag-lab-")))
        folder.mkdir(parents=True, exist_ok=True)
        lend(folder)
        net = network.of({**situation.network, "seed": seed} if situation.network else {})
        stack.enter_context(net)
        server = stack.enter_context(serve(situation.server, folder, net))
        net.armed(server.port)
        port, traced = server.port, server.pid
        if situation.trace.get("proxy") is not None:
            proxy = stack.enter_context(Proxy(situation.trace["proxy"], server.port, folder, net))
            port, traced = proxy.port, proxy.pid
        client = dict(situation.client)
        if situation.trace.get("tunnel") is not None:
            client["proxy"] = f"http://127.0.0.1:{stack.enter_context(Tunnel(situation.trace['tunnel'])).port}"
        argv = programs.argv(client, urls(situation, net.address, port), folder)
        if situation.client.get("cpu_share"):
            argv = [*stack.enter_context(limited(situation.client["cpu_share"])), *argv]
        argv = net.for_client(argv)
        out = folder / "trace.json"
        of_command = situation.trace.get("target", "command") == "command"
        target = Target(pid=None if of_command else traced, argv=argv, timeout_s=scenario.timeout_s)
        messages = trace(netdiag, target, out)
        misses, document = _judge(situation, out, server, messages)
        if net.questions is not None and document is not None:
            misses += compare_questions(document, net.questions)
    return Outcome(situation=situation, misses=tuple(misses), document=document, messages=messages)


@contextmanager
def serve(settings: Mapping[str, Any], folder: Path, net: network.Network) -> Iterator[RunningServer]:
    """Start the server, wait until it listens, and end it afterwards."""
    table = dict(settings)
    if net.address != "127.0.0.1":
        table["bind"] = [net.address]
    config, facts = folder / "server.json", folder / "facts.jsonl"
    config.write_text(json.dumps(table))
    argv = net.for_server([sys.executable, "-m", "netdiag.lab.server", str(config), str(facts)])
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment(for_netdiag=True))
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line.startswith("ready"):
            raise Unsupported(f"the lab's server did not start (exit {process.wait()})")
        yield RunningServer(pid=process.pid, port=int(line.split()[1]), facts=facts)
    finally:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()


def urls(situation: Situation, address: str, port: int) -> list[str]:
    """Return what the client is to call: one URL per host of the scenario and path."""
    scheme = "https" if situation.server.get("tls") not in (None, False) else "http"
    proxy = situation.trace.get("proxy")
    if proxy is not None:
        scheme = "https" if proxy.get("tls") or proxy.get("http2") else "http"
    closed = situation.client.get("closed_port")
    hosts = situation.client.get("hosts", [address])
    paths = situation.client.get("paths", [PATH])
    at = free_port() if closed else port
    return [f"{scheme}://{host}:{at}{path}" for host in hosts for path in paths]


def environment(*, for_netdiag: bool = False) -> dict[str, str]:
    """Return the environment without settings that would lead a client elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not FOREIGN_ENVIRONMENT.search(name)}
    if for_netdiag:
        root = str(Path(__file__).parents[2])
        kept["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [kept.get("PYTHONPATH")])])
    return kept


def lend(folder: Path) -> None:
    """Let the user who called sudo write into a folder that root made: netdiag's front works as that user."""
    owner = os.environ.get("SUDO_UID")
    if os.geteuid() == 0 and owner:
        os.chown(folder, int(owner), int(os.environ.get("SUDO_GID", owner)))
    folder.chmod(0o755)


def rights() -> list[str]:
    """Return the option that keeps root for the client: only where root itself started the lab."""
    return ["--as-root"] if os.geteuid() == 0 and not os.environ.get("SUDO_UID") else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What netdiag shall trace in a run."""

    pid: int | None
    """A running process; None: the command itself."""
    argv: Sequence[str]
    """The client's command."""
    timeout_s: float


def trace(netdiag: Sequence[str], target: Target, out: Path) -> str:
    """Run netdiag over the client, JSON into `out`; return what it wrote to stderr."""
    whom = [*rights(), "--", *target.argv] if target.pid is None else ["--pid", str(target.pid)]
    command = [*netdiag, "trace", "--format", "json", "-o", str(out), *whom]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment(), stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        if target.pid is not None:
            time.sleep(ARMED_AFTER_S)
            quiet = subprocess.DEVNULL
            subprocess.run(target.argv, env=environment(), check=False, timeout=target.timeout_s, stdout=quiet)
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
        return _finish(process, target.timeout_s)


ARMED_AFTER_S = 2.0
"""Time that a trace of a running process is given before the client starts."""


def _finish(process: subprocess.Popen[str], timeout_s: float) -> str:
    try:
        _, messages = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"{process.communicate()[1]}\nnetdiag did not end within {timeout_s} s"
    return messages


Judgement = tuple[list[str], Mapping[str, Any] | None]


def _judge(situation: Situation, out: Path, server: RunningServer, messages: str) -> Judgement:
    if not out.exists():
        return [f"netdiag wrote nothing: {messages.strip()[-400:]}"], None
    document = json.loads(out.read_text())
    expect = situation.expect
    if situation.trace.get("target", "command") != "command":
        expect = replace(expect, counts=False)
    try:
        return compare(document, Truth.read(server.facts), server.port, expect), document
    except (KeyError, TypeError) as error:
        return [f"the output is not netdiag.trace/1: {type(error).__name__} {error}"], document
