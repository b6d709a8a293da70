# SPDX-License-Identifier: Apache-2.0
"""`netdiag demo`: a first look at what netdiag says."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command("demo", short_help="Trace a local API and a client with a fault, as a first look.")
@click.option("--seed", type=int, default=1, show_default=True, help="Draws the numbers of the demonstration.")
def command(seed: int) -> int:
    """Start a small API on loopback and a client with a fault, trace the client, and print what was found.

    \b
    netdiag demo
    """  # noqa: D301 - click reads the control character
    from netdiag import lab

    return lab.demo(seed=seed)
