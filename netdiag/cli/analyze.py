# SPDX-License-Identifier: Apache-2.0
"""`netdiag analyze`: the findings of a recording, without root."""

from __future__ import annotations

import sys

import click

from netdiag.cli.options import Output, output_options
from netdiag.errors import UsageError

__all__ = ["command"]


@click.command("analyze", short_help="Say the same of a recording, without root.")
@click.argument("files", metavar="RECORDING...", nargs=-1, required=True)
@output_options
def command(files: tuple[str, ...], output: Output) -> int:
    """Say of each RECORDING what `trace` said at its end: the same bytes from the same recording.

    RECORDING is a file, `-` for standard input, or `last`.

    \b
    netdiag analyze last
    netdiag analyze slow.netdiag --format json -o slow.json --assert 'reuse>=0.9'
    """  # noqa: D301 - click reads the control character
    from netdiag.cli.results import examine, gate, open_input, write

    if len(files) > 1 and output.format in {"json", "csv"}:
        raise UsageError(f"--format {output.format} holds one recording", hint="use --format ndjson for several")
    documents = []
    for name in files:
        recording, word = open_input(name)
        documents.append((word, examine(recording, output).document))
    write(documents, output, fallback=sys.stdout)
    return max(gate(document, output) for _, document in documents)
