# SPDX-License-Identifier: Apache-2.0
"""`netdiag schema`: the JSON Schema of the output, as it ships."""

from __future__ import annotations

import sys

import click

__all__ = ["command"]


@click.command("schema", short_help="Print the JSON Schema of the output.")
@click.argument("name", default="netdiag.trace/1")
def command(name: str) -> None:
    """Print the JSON Schema (2020-12) of the document NAME.

    \b
    netdiag schema > trace.schema.json
    """  # noqa: D301 - click reads the control character
    from netdiag.assets import data_dir
    from netdiag.cli.results import write_text
    from netdiag.errors import UsageError

    folder = data_dir("reports") / "schemas"
    known = {path.stem.replace("-", "/"): path for path in sorted(folder.glob("*.json"))}
    if name not in known:
        raise UsageError(f"no schema {name!r}", hint=f"there are {', '.join(known)}")
    write_text(known[name].read_text("utf-8"), None, sys.stdout)
