# SPDX-License-Identifier: Apache-2.0
"""scripts/bench: measures what tracing costs, beside other tracers, in one run."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from scripts._bench import measure, readers, tls
from scripts._bench.build import Programs, bcc_environment, build
from scripts._bench.report import Results, text, write
from scripts._bench.tools import CannotRun, Netdiag, Peer, Tool

__all__ = ["main"]

PARTS = ("start", "kernel", "throughput", "requests", "tls", "readers")
_PEERS = {
    "tcplife": "tcplife",
    "tcpstates": "tcpstates",
    "bcc-tcplife": "tcplife-bpfcc",
    "sslsniff": "sslsniff-bpfcc",
    "bpftrace": "bpftrace",
}
"""Other tracers: the option's name and the usual command."""
_RATES = (250_000, 500_000, 1_000_000, 2_000_000, 4_000_000)


def main() -> int:
    """Measure, print, write; returns the exit status."""
    options = _options()
    if os.geteuid() != 0:
        sys.stderr.write("scripts/bench: needs root, as every tracer that it compares does\n")
        return 4
    results = Results(command=" ".join(["sudo scripts/bench", *sys.argv[1:]]))
    with tempfile.TemporaryDirectory(prefix="netdiag-bench-") as name:
        folder = Path(name)
        programs = build(folder)
        bcc = bcc_environment(folder)
        tools = _tools(options, bcc)
        results.records = {tool.name: tool.records for tool in tools}
        with measure.serving(programs) as port:
            _measure(options, results, tools, programs, port)
            if "tls" in options.parts:
                _measure_tls(options, results, programs, port)
        if "readers" in options.parts:
            _say("readers")
            rates = _RATES[:3] if options.quick else _RATES
            rounds, seconds = (1, 0.4) if options.quick else (2, 1.5)
            results.readers = readers.sustained(programs, rates, rounds=rounds, seconds=seconds, environment=bcc)
    sys.stdout.write(text(results))
    if options.write:
        write(options.write, results)
    return 0


def _measure(options: argparse.Namespace, results: Results, tools: list[Tool], programs: Programs, port: int) -> None:
    quick = options.quick
    if "start" in options.parts:
        _say("start and memory")
        repeats, connections = (1, 1000) if quick else (7, 20_000)
        results.footprints = [
            measure.footprint(tool, programs, port, repeats=repeats, connections=connections) for tool in tools
        ]
        results.command_start = measure.command_start(programs, repeats=repeats)
    if "kernel" in options.parts:
        _say("kernel time per connection")
        rounds, connections = (1, 1000) if quick else (5, 3000)
        results.costs = measure.costs(tools, programs, port, rounds=rounds, connections=connections)
    if "throughput" in options.parts:
        _say("throughput")
        rounds, seconds, connections = (1, 0.2, 2000) if quick else (6, 0.4, 5000)
        results.throughput = measure.throughput(
            tools, programs, port, rounds=rounds, seconds=seconds, connections=connections
        )
    if "requests" in options.parts:
        _say("requests")
        rounds, seconds = (1, 0.4) if quick else (10, 1.0)
        for client in ("C", "http.client", *(("requests", "httpx") if _lab_python() else ())):
            try:
                python = _lab_python()
                results.requests.append(
                    measure.requests(Netdiag(), programs, port, client, rounds=rounds, seconds=seconds, python=python)
                )
            except CannotRun as error:
                _say(f"{client}: {error}")


def _measure_tls(options: argparse.Namespace, results: Results, programs: Programs, plain_port: int) -> None:
    quick = options.quick
    with tls.serving() as port:
        _say("TLS: kernel time and bytes")
        rounds, connections, chunks = (1, 100, 1000) if quick else (7, 400, 5000)
        results.tls = tls.costs(programs, plain_port, port, rounds=rounds, connections=connections, chunks=chunks)
        _say("TLS: throughput")
        tried = tls.tools(options.sslsniff, options.bpftrace)
        rounds, seconds, connections = (1, 0.2, 100) if quick else (6, 0.5, 300)
        results.tls_losses = tls.losses(tried, port, rounds=rounds, seconds=seconds, connections=connections)
        _say("TLS: requests")
        rounds, seconds = (1, 0.4) if quick else (8, 1.0)
        for tool in tried:
            if isinstance(tool, Netdiag):
                result = measure.requests(tool, programs, port, "https", rounds=rounds, seconds=seconds)
                result.client = tool.name
                results.tls_requests.append(result)


def _lab_python() -> Path | None:
    """Return the Python that has the client libraries (scripts/setup --lab makes it), if there is one."""
    path = Path(os.environ.get("NETDIAG_LAB_PYTHON", ".cache/lab-venv/bin/python"))
    return path if path.exists() else None


def _tools(options: argparse.Namespace, bcc: dict[str, str]) -> list[Tool]:
    return [
        Netdiag(),
        Peer(
            name="tcplife",
            command=[options.tcplife],
            records="both ends: closed, with process, addresses, bytes, duration",
        ),
        Peer(
            name="tcpstates",
            command=[options.tcpstates],
            records="both ends: every change of state, with process, addresses, time in the old one",
        ),
        Peer(
            name="bcc tcplife",
            command=[options.bcc_tcplife],
            records="as tcplife",
            environment=bcc,
        ),
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure what tracing costs, beside other tracers; one that is missing is listed with the reason.",
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="what to measure (default: all)")
    parser.add_argument("--quick", action="store_true", help="a look in under a minute: few rounds, wide intervals")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into FILE, between its marks")
    for name, command in _PEERS.items():
        variable = f"NETDIAG_BENCH_{name.replace('-', '_').upper()}"
        default = os.environ.get(variable, command)
        parser.add_argument(f"--{name}", default=default, metavar="PROGRAM", help=f"or {variable} (default: {command})")
    options = parser.parse_args()
    options.parts = options.parts or list(PARTS)
    return options


def _say(what: str) -> None:
    sys.stderr.write(f"scripts/bench: {what}\n")


if __name__ == "__main__":
    sys.exit(main())
