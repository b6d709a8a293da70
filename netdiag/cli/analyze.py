# SPDX-License-Identifier: Apache-2.0
"""`netdiag analyze`: the findings of a recording or of a packet capture, without root."""

from __future__ import annotations

import gc
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netdiag.cli.options import Output, output_options
from netdiag.errors import UsageError

if TYPE_CHECKING:
    from netdiag.capture import Limits

__all__ = ["command"]

_PORTS = 65535
_COLLECT_AFTER = 100_000
"""What is read and analysed has hardly a cycle: looking for some after every 700 objects took a tenth of the time."""
_SECONDS = re.compile(r"\+?(\d{1,9}(?:\.\d{1,9})?)s?")


@click.command("analyze", short_help="Say the same of a recording or a packet capture, without root.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--keylog",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read TLS with the secrets that programs write where SSLKEYLOGFILE points.",
)
@click.option("--host", "hosts", metavar="NAME|CIDR", multiple=True, help="Only connections with it. Repeatable.")
@click.option(
    "--port",
    "ports",
    metavar="N",
    type=click.IntRange(1, _PORTS),
    multiple=True,
    help="Only connections with this port at either end. Repeatable.",
)
@click.option(
    "--from", "start", metavar="TIME", help="Only packets from here on: RFC 3339, or seconds after the first."
)
@click.option("--to", "end", metavar="TIME", help="Only packets up to here.")
@output_options
def command(
    files: tuple[str, ...],
    keylog: Path | None,
    hosts: tuple[str, ...],
    ports: tuple[int, ...],
    start: str | None,
    end: str | None,
    output: Output,
) -> int:
    """Say of each FILE what `trace` would have said at its end.

    FILE is a recording of netdiag, `last`, or a packet capture: pcap or pcapng, also packed by gzip, zstd or xz; `-` is
    standard input. The other options here matter to captures alone.

    \b
    netdiag analyze last
    netdiag analyze slow.pcapng.gz --host api.example.com --keylog keys.txt
    tcpdump -i any -w - tcp | netdiag analyze - --assert 'reuse>=0.9'
    """  # noqa: D301 - click reads the control character
    from netdiag.cli.progress import Reading
    from netdiag.cli.results import CaptureWishes, examine, gate, open_input, say, write

    if len(files) > 1 and output.format in {"json", "csv"}:
        raise UsageError(f"--format {output.format} holds one file", hint="use --format ndjson for several")
    if keylog is not None and not keylog.is_file():
        raise UsageError(f"--keylog {keylog}: there is no such file")
    limits = _limits(hosts, ports, start, end)
    gc.set_threshold(_COLLECT_AFTER)
    documents = []
    for name in files:
        with Reading(name) as progress:
            recording, word = open_input(name, CaptureWishes(keylog=keylog, limits=limits, progress=progress))
        if recording.records("weights_thread") is not None:
            say(f"this recording holds a load of weights: netdiag weights show {word or name}")
        documents.append((word, examine(recording, output).document))
    write(documents, output, fallback=sys.stdout)
    return max(gate(document, output) for _, document in documents)


def _limits(hosts: tuple[str, ...], ports: tuple[int, ...], start: str | None, end: str | None) -> Limits | None:
    if not (hosts or ports or start or end):
        return None
    from netdiag.addresses import prefix
    from netdiag.capture import Limits

    networks, names = [], []
    for host in hosts:
        try:
            networks.append(prefix(host))
        except ValueError:
            names.append(host.lower().rstrip("."))
    first, last = _instant("--from", start), _instant("--to", end)
    if first and last and first[1] == last[1] and first[0] > last[0]:
        raise UsageError("--from is later than --to")
    return Limits(
        networks=tuple(networks) if hosts else None,
        names=frozenset(names),
        ports=frozenset(ports) if ports else None,
        start_ns=first[0] if first else None,
        end_ns=last[0] if last else None,
        relative=(bool(first and first[1]), bool(last and last[1])),
    )


def _instant(option: str, text: str | None) -> tuple[int, bool] | None:
    """Return nanoseconds, and whether they count from the first packet."""
    if text is None:
        return None
    if found := _SECONDS.fullmatch(text.strip()):
        return round(float(found[1]) * 1e9), True
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        hint = "as 2026-05-01T12:00:00Z, or 12.5 for that many seconds after the first packet"
        raise UsageError(f"{option} {text}: no time", hint=hint) from error
    at = at if at.tzinfo is not None else at.astimezone()
    return round(at.timestamp() * 1e6) * 1000, False
