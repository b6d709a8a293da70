# SPDX-License-Identifier: Apache-2.0
"""`netdiag doctor`: what this machine can do, what it cannot, and how to get it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from netdiag.cli.options import COLORS, format_option, wants_color

if TYPE_CHECKING:
    from netdiag.doctor import Check
    from netdiag.render.layout import Paper

__all__ = ["command", "table"]

_UNSUPPORTED = 5
_STYLES = {"ok": "good", "degraded": "warning", "missing": "critical"}


@click.command("doctor", short_help="Show what this machine can do, and how to get what it cannot.")
@format_option("table", "json")
@click.option("--color", type=click.Choice(COLORS), default="auto", show_default=True, help="Colour the table.")
@click.option("--install-recorder", is_flag=True, help="As root: make root's copy of the recorder, and check nothing.")
def command(format_: str, color: str, *, install_recorder: bool) -> int:
    """Check kernel, rights and libraries, and prove the probes by a connection on loopback.

    Exit 0 when everything that tracing needs is there, 5 when something is missing.

    \b
    netdiag doctor
    sudo netdiag doctor --format json
    sudo netdiag doctor --install-recorder
    """  # noqa: D301 - click reads the control character
    if install_recorder:
        from netdiag.recorder.install import install

        click.echo(f"root's copy of the recorder: {install()}")
        return 0
    from netdiag.cli.results import write_text
    from netdiag.doctor import examine

    checks = examine()
    if format_ == "json":
        from dataclasses import asdict

        from netdiag.values import clean, dumps

        text = "[\n" + ",\n".join(dumps(clean(asdict(check))) for check in checks) + "\n]\n"
    else:
        text = table(checks, color=wants_color(color, sys.stdout))
    write_text(text, None, sys.stdout)
    return _UNSUPPORTED if any(check.state == "missing" for check in checks) else 0


def table(checks: Sequence[Check], *, color: bool) -> str:
    """Return the checks as lines of 80 columns, each remedy under what it cures."""
    from netdiag.render.layout import Paper

    paper = Paper(width=80, color=color)
    return "".join(f"{line}\n" for check in checks for line in _lines(check, paper))


def _lines(check: Check, paper: Paper) -> Iterator[str]:
    from netdiag.render.layout import wrap
    from netdiag.text import fit, safe

    state = paper.paint(fit(str(check.state), 9), _STYLES.get(str(check.state), "info"))
    for row, text in enumerate(wrap(safe(check.detail or ""), 48) if check.detail else [""]):
        left = f"{state} {fit(safe(check.name), 20)}" if row == 0 else " " * 30
        yield f"{left}  {text}".rstrip()
    if check.remedy:
        for row, text in enumerate(wrap(safe(check.remedy), 43)):
            yield f"{' ' * 30}  {'fix: ' if row == 0 else '     '}{text}"
