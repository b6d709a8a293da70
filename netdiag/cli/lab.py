# SPDX-License-Identifier: Apache-2.0
"""`netdiag lab`: a known fault on loopback, to see it found."""

from __future__ import annotations

import sys

import click

__all__ = ["command"]

_MISSED = 3


@click.command("lab", short_help="Run a known fault on loopback and see it found.")
@click.argument("name", metavar="NAME|CODE", required=False)
@click.option("--seed", type=int, default=1, show_default=True, help="Draws the numbers of the scenario.")
def command(name: str | None, seed: int) -> int:
    """Run the scenario NAME, or the one that shows the finding CODE; without either, list them.

    Exit 3 when what netdiag said differs from what the lab's server knows.

    \b
    netdiag lab reuse.server-idle-timeout --seed 7
    """  # noqa: D301 - click reads the control character
    from netdiag import lab
    from netdiag.cli.results import write_text

    if name is None:
        codes = lab.list_codes()
        width = max((len(code) for code in codes), default=0)
        listing = "".join(f"{code:<{width}}  {scenario.title}\n" for code, scenario in codes.items())
        write_text(listing, None, sys.stdout)
        return 0
    return _MISSED if lab.show(name, seed=seed).misses else 0
