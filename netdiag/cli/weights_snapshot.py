# SPDX-License-Identifier: Apache-2.0
"""`netdiag weights snapshot`: how the free memory of PyTorch's allocator is cut up."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from netdiag.cli.options import format_option

__all__ = ["command"]


@click.command("snapshot", short_help="Say how the GPU memory that PyTorch holds is cut up.")
@format_option("table", "json")
@click.option("--failed", metavar="BYTES", type=click.IntRange(1), help="Size of the allocation that failed.")
@click.argument("file", type=click.Path(path_type=Path))
def command(*, file: Path, format_: str, failed: int | None) -> None:
    """Read a memory snapshot (torch.cuda.memory._snapshot(), as pickle or JSON).

    A pickle is read without running anything of it: numbers, texts, lists and tables are
    taken, and a file that asks for more is refused.
    """
    from netdiag.cli.results import write_text
    from netdiag.text import safe
    from netdiag.units import format_bytes
    from netdiag.weights.snapshot import claims, fragmentation, read_snapshot

    parts = fragmentation(read_snapshot(file))
    found = list(claims(parts, failed))
    if format_ == "json":
        made = {"devices": [asdict(one) for one in parts], "findings": [one.to_json() for one in found]}
        write_text(json.dumps(made) + "\n", None, sys.stdout)
        return
    lines = []
    for one in found:
        lines += [f"{one.severity.value.upper()}  {safe(one.title)}", f"  what   {one.code} ({one.cause})",
                  *(f"  proof  {safe(row.note)}" for row in one.evidence),
                  *(f"  fix    {safe(row.text)}  {row.snippet or ''}".rstrip() for row in one.advice[:1]),
                  f"  then   {safe(one.what_if or '')}"]  # fmt: skip
    if not found:
        lines.append("nothing  No cause stands out.")
    names = ("reserved", "allocated", "free", "largest", "hard", "soft")
    lines.append(f"{'GPU':<5}" + "".join(f"{name:>11}" for name in (*names, "blocks", "streams")))
    for part in parts:
        sizes = "".join(f"{format_bytes(getattr(part, name)):>11}" for name in names)
        lines.append(f"{part.device:<5}{sizes}{part.blocks:>11,}{part.streams:>11,}")
    write_text("\n".join(lines) + "\n", None, sys.stdout)
