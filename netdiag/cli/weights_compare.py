# SPDX-License-Identifier: Apache-2.0
"""`netdiag weights compare FILE`: read() into memory against mmap, on this file and this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from netdiag.cli.options import format_option

__all__ = ["command"]


@click.command("compare", short_help="Compare ways to bring a file into memory.")
@format_option("table", "json")
@click.option("--cold", is_flag=True, help="Measure cold runs, too, on a copy that is made beside FILE and removed.")
@click.option("--repeat", metavar="N", type=click.IntRange(1, 20), default=3, show_default=True, help="Runs of each.")
@click.argument("file", type=click.Path(path_type=Path))
def command(*, file: Path, format_: str, cold: bool, repeat: int) -> None:
    """Compare read() into memory with mmap, and say where the difference comes from.

    FILE is read, and nothing else is changed: no cache is dropped but that of the copy that
    --cold makes.
    """
    from netdiag.cli.results import write_text
    from netdiag.text import fit, safe
    from netdiag.units import UNKNOWN, format_bytes, format_count, format_ms
    from netdiag.weights.compare import METHODS, compare, to_json, why

    runs = compare(file, cold=cold, repeats=repeat)
    size = file.stat().st_size
    words = why(runs, size)
    if format_ == "json":
        found = {"file": str(file), "bytes": size, "runs": [to_json(run) for run in runs], "why": words}
        write_text(json.dumps(found) + "\n", None, sys.stdout)
        return
    lines = [f"{safe(file.name)}, {format_bytes(size)}, the fastest of {repeat}"]
    lines.append(f"{fit('', 36)}{'time':>8}{'off CPU':>8}{'faults':>9}{'major':>7}{'device':>9}")
    for run in runs:
        name = fit(f"{run.state}  {METHODS[run.method][0]}", 36)
        device = UNKNOWN if run.device_bytes is None else format_bytes(run.device_bytes)
        cells = (format_ms(run.ms), format_ms(run.blocked_ms), format_count(run.minor_faults))
        lines.append(f"{name}{cells[0]:>8}{cells[1]:>8}{cells[2]:>9}{run.major_faults:>7,}{device:>9}")
    lines += [f"why   {text}" for text in words]
    if not cold:
        lines.append("note  warm only; --cold measures cold runs on a copy beside the file")
    write_text("\n".join(lines) + "\n", None, sys.stdout)
