# SPDX-License-Identifier: Apache-2.0
"""`netdiag dump`: every block and raw record of a recording, before anything is joined or judged."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from netdiag.cli.options import format_option

if TYPE_CHECKING:
    from netdiag.recording.reader import Recording

__all__ = ["command"]

_AT_ONCE = 1000
"""Records that are written together: a call for each would take most of the time."""


@click.command("dump", short_help="Print the raw records of a recording.")
@click.argument("recording", metavar="RECORDING")
@click.option("--stream", "streams", metavar="NAME", multiple=True, help="Only this stream. Repeatable.")
@click.option("--limit", metavar="N", type=click.IntRange(min=0), help="At most N records of a stream.")
@format_option("table", "ndjson")
def command(recording: str, streams: tuple[str, ...], limit: int | None, format_: str) -> None:
    """Print header, facts and every record of RECORDING (a file, `-` or `last`) as they lie there.

    \b
    netdiag dump last --stream tcp --limit 3
    netdiag dump slow.netdiag --format ndjson | grep '"kind": "loss"'
    """  # noqa: D301 - click reads the control character
    from netdiag.cli.results import open_input, write_text

    found, _ = open_input(recording)
    chosen = _streams(found, streams)
    line = _text_line if format_ == "table" else _json_line
    lines = (line(block, values) for block, values in _blocks(found, chosen, limit))
    while text := "".join(islice(lines, _AT_ONCE)):
        write_text(text, None, sys.stdout)


def _streams(recording: Recording, names: tuple[str, ...]) -> tuple[str, ...]:
    from netdiag.errors import UsageError

    for name in names:
        if name not in recording.layouts:
            raise UsageError(f"no stream {name!r} in it", hint=f"there are {', '.join(recording.layouts) or 'none'}")
    return names or tuple(recording.layouts)


def _blocks(recording: Recording, streams: tuple[str, ...], limit: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "header", recording.header
    for fact in recording.facts:
        yield "fact", fact
    for stream in streams:
        records = recording.records(stream)
        if records is not None:
            for record in records[:limit]:
                yield stream, {name: _plain(record[name]) for name in record.dtype.names or ()}
    if recording.end is not None:
        yield "end", recording.end
    if recording.truncated_at is not None:
        yield "truncated", {"at": recording.truncated_at, "why": recording.truncated_why}


def _plain(value: Any) -> Any:
    """Return a member of a record as a JSON value: text as text, opaque bytes as hexadecimal digits."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if getattr(value, "ndim", 0):
        return value.tobytes().hex()
    return value.item() if hasattr(value, "item") else value


def _text_line(block: str, values: dict[str, Any]) -> str:
    from netdiag.text import safe

    members = " ".join(f"{safe(str(name))}={safe(str(value))}" for name, value in values.items())
    return f"{safe(block)} {members}\n"


def _json_line(block: str, values: dict[str, Any]) -> str:
    from netdiag.values import clean, dumps

    return f"{dumps({'block': block, **clean(values)})}\n"
