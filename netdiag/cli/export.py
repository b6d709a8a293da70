# SPDX-License-Identifier: Apache-2.0
"""`netdiag export`: a recording in the form of another tool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from netdiag.errors import NetdiagError, UsageError
from netdiag.export import FORMATS, LISTS

if TYPE_CHECKING:
    from netdiag.cli.progress import Counter
    from netdiag.cli.results import Examined
    from netdiag.export.source import Source
    from netdiag.recording.reader import Recording

__all__ = ["command"]

_Made = TypeVar("_Made")
_FOLDERS = ("parquet",)
_PACKETS_HINT = "trace with --save-packets FILE to have them"


@click.command("export", short_help="Write a recording in the form of another tool.")
@click.argument("recording", metavar="RECORDING")
@click.option("--to", "form", type=click.Choice(FORMATS), required=True, help="The form.")
@click.option(
    "-o",
    "file",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="FILE, or a FOLDER for parquet and for csv without --rows. [default: standard output]",
)
@click.option("--rows", type=click.Choice(LISTS), help="csv: only this list, into one file.")
@click.option("--endpoint", metavar="URL", help="otlp: send it there, as OTLP over HTTP. Nothing is sent without.")
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Accepted findings. See `analyze`.")
@click.option("--slow-ms", metavar="MS", type=click.FloatRange(min=0), default=500.0, show_default=True, hidden=True)
def command(
    recording: str,
    form: str,
    file: Path | None,
    rows: str | None,
    endpoint: str | None,
    config: Path | None,
    slow_ms: float,
) -> None:
    """Write RECORDING (a recording, a capture, `-` or `last`) for other tools.

    \b
    netdiag export last --to parquet -o lake/       LIST/host=…/date=…/*.parquet
    netdiag export last --to har -o calls.har       for a browser's network panel
    netdiag export last --to otlp --endpoint http://localhost:4318
    netdiag export slow.netdiag --to csv --rows requests | head
    """  # noqa: D301 - click reads the control character
    from netdiag.cli.progress import Counter
    from netdiag.cli.results import open_input, say

    _check(form, file, rows, endpoint)
    found, _ = open_input(recording)
    if form == "pcapng":
        _packets(found, file, config, slow_ms)
        return
    source = _source(found, config, slow_ms)
    with Counter() as counter:
        if endpoint is not None:
            from netdiag import web
            from netdiag.export import otlp

            say(f"sent {otlp.send(source, endpoint, counter)} messages to {web.origin(endpoint)}")
            return
        if form == "parquet" and file is not None:
            from netdiag.export import parquet

            say(f"wrote {len(_folder(lambda: parquet.write(source, file, counter), file))} files below {file}")
            return
        if form == "csv" and rows is None and file is not None:
            from netdiag.export.texts import csv_lines

            _folder(lambda: file.mkdir(parents=True, exist_ok=True), file)
            for kind in LISTS:
                _stream(csv_lines(source, kind, counter), file / f"{kind}.csv")
        else:
            _stream(_lines(source, form, rows, counter), file)
    if file is not None:
        say(f"wrote {file}")


def _check(form: str, file: Path | None, rows: str | None, endpoint: str | None) -> None:
    if endpoint is not None and form != "otlp":
        raise UsageError(f"--endpoint is of --to otlp, not of --to {form}")
    if endpoint is not None and file is not None:
        raise UsageError("-o or --endpoint, not both")
    if rows is not None and form != "csv":
        raise UsageError(f"--rows is of --to csv, not of --to {form}")
    if form == "parquet" and file is None:
        raise UsageError("Parquet goes into a folder", hint="-o FOLDER")
    folder = form in _FOLDERS or (form == "csv" and rows is None and file is not None)
    if file is not None and folder and file.exists() and not file.is_dir():
        raise UsageError(f"-o {file}: it is no folder")
    if file is not None and not folder and file.is_dir():
        raise UsageError(f"-o {file}: it is a folder")


def _source(found: Recording, config: Path | None, slow_ms: float) -> Source:
    from netdiag.cli.options import Output
    from netdiag.cli.results import judged
    from netdiag.export.source import Source
    from netdiag.values import clean

    seen = judged(found, Output(config=config, slow_ms=slow_ms), None)
    return Source(
        recording=found,
        tables=seen.tables,
        findings=[clean(finding.to_json()) for finding in seen.findings],
        stalls=seen.stalls,
        ignored=seen.ignored,
        failures=seen.failures,
    )


def _lines(source: Source, form: str, rows: str | None, counter: Counter) -> Iterable[str]:
    from netdiag.export import har, otlp, texts

    if form == "csv":
        return texts.csv_lines(source, rows or LISTS[0], counter)
    if form == "har":
        return har.lines(source, counter)
    if form == "otlp":
        return otlp.lines(source, counter)
    return texts.json_lines(source, counter)


def _folder(write: Callable[[], _Made], folder: Path) -> _Made:
    try:
        return write()
    except OSError as error:
        raise UsageError(f"-o {folder}: {error.strerror}") from error


def _stream(lines: Iterable[str], file: Path | None) -> None:
    from netdiag.cli.results import write_pieces

    write_pieces((line.encode("utf-8") for line in lines), file, sys.stdout)


def _packets(found: Recording, file: Path | None, config: Path | None, slow_ms: float) -> None:
    """Write the packets of connections that findings name, as `trace --save-packets` does."""
    from netdiag.capture import evidence
    from netdiag.cli.options import Output
    from netdiag.cli.results import examine, say, write_pieces

    kept = found.facts_of("packet")
    if not kept:
        raise NetdiagError("this recording holds no packets", hint=_PACKETS_HINT)
    examined: Examined = examine(found, Output(config=config, slow_ms=slow_ms))
    chosen = evidence.select(kept, found.header["clock"], examined.document)
    data = evidence.pcapng(chosen, comment=f"netdiag: {len(chosen)} packets of connections that findings name")
    write_pieces([data], file, sys.stdout)
    if file is not None:
        say(f"wrote {len(chosen)} packets to {file}")
