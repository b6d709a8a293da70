# SPDX-License-Identifier: Apache-2.0
"""`netdiag report`: one page that a person reads and passes on."""

from __future__ import annotations

import sys
from pathlib import Path

import click

__all__ = ["command"]


@click.command("report", short_help="Write a recording as a page to read and to pass on.")
@click.argument("recording", metavar="RECORDING")
@click.option(
    "-o",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="The page, FILE.html; `-` for standard output.",
)
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Accepted findings. See `analyze`.")
@click.option(
    "--slow-ms",
    metavar="MS",
    type=click.FloatRange(min=0),
    default=500.0,
    show_default=True,
    help="A server's answer is slow from here on.",
)
def command(recording: str, file: Path, config: Path | None, slow_ms: float) -> None:
    """Write RECORDING (a file, `-` or `last`) as one HTML page that loads nothing from elsewhere.

    \b
    netdiag report last -o slow.html
    """  # noqa: D301 - click reads the control character
    from netdiag.cli.options import Output
    from netdiag.cli.results import examine, open_input, say, write_text
    from netdiag.render import Options, render
    from netdiag.render.activity import activity

    found, _ = open_input(recording)
    output = Output(format="html", config=config, slow_ms=slow_ms)
    examined = examine(found, output)
    target = None if str(file) == "-" else file
    write_text(render("html", examined.document, Options(activity=activity(examined.tables))), target, sys.stdout)
    if target is not None:
        say(f"wrote {target}")
