# SPDX-License-Identifier: Apache-2.0
"""From a recording to what the user asked for: analyse, render, write, and say whether a gate failed."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from netdiag.cli.options import Output, wants_color
from netdiag.errors import InputUnreadable, NetdiagError, UsageError

__all__ = [
    "FAILED",
    "CaptureWishes",
    "Examined",
    "Judged",
    "check_assertions",
    "examine",
    "gate",
    "judged",
    "open_input",
    "say",
    "silence",
    "write",
    "write_pieces",
    "write_text",
]

if TYPE_CHECKING:
    from netdiag.bulk import Whole
    from netdiag.capture import Limits, Progress
    from netdiag.findings import Finding
    from netdiag.recording.reader import Recording
    from netdiag.tables import Tables

    Telling = Callable[[str, int, int], None]
    """Hears of what is done, how far, and of how much."""

FAILED = 3
"""Exit status when `--fail-on` or `--assert` says no."""

_SEVERITIES = ("info", "warning", "critical")
_BUFFER_BYTES = 1 << 20
_LARGE = 64 << 20
"""A capture of so many bytes is read in a process of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A recording that was analysed."""

    document: dict[str, Any]
    """`netdiag.trace/1`."""
    tables: Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A recording's tables and what they show."""

    tables: Tables
    """Packed where the recording is long."""
    findings: Sequence[Finding]
    ignored: Sequence[dict[str, Any]]
    failures: Sequence[tuple[str, str]]
    stalls: Mapping[int, Sequence[Mapping[str, object]]]
    whole: Whole | None = None
    """Of a long recording, how it was worked through."""


def judged(recording: Recording, output: Output, progress: Telling | None, *, today: date | None = None) -> Judged:
    """Return tables and findings; those of a long recording part by part, which uses its records up.

    The day decides only which accepted findings have expired.
    """
    from netdiag import analysis, bulk, config, forks, tables  # pandas: 0.4 s

    ignores = config.load(output.config)
    options = analysis.Options(slow_ms=output.slow_ms)
    day = datetime.now(UTC).date() if today is None else today
    if bulk.is_long(recording):
        with _counting(progress) as told:
            whole = bulk.build(recording, options, told)
        built, found, failed, stalls = whole.tables, whole.findings, whole.failures, {}
    else:
        whole, built = None, tables.build(recording, each=forks.each)
        report = analysis.examine(built, options)
        found, failed, stalls = report.findings, report.failures, dict(report.stalls)
    reported, ignored = config.split(found, ignores, day)
    return Judged(
        tables=built,
        findings=reported,
        ignored=ignored,
        failures=[(failure.analysis, failure.reason) for failure in failed],
        stalls=stalls,
        whole=whole,
    )


@contextlib.contextmanager
def _counting(progress: Telling | None) -> Iterator[Telling]:
    """Tell whoever asked for it, else a line on stderr."""
    from netdiag.cli.progress import Counter

    if progress is not None:
        yield progress
        return
    with Counter() as counter:
        yield counter


def examine(recording: Recording, output: Output, *, today: date | None = None) -> Examined:
    """Return what a recording shows; the day decides only which accepted findings have expired."""
    from netdiag import analysis, config, forks, tables  # pandas: 0.4 s
    from netdiag.document import build

    ignores = config.load(output.config)
    built = tables.build(recording, each=forks.each)
    report = analysis.examine(built, analysis.Options(slow_ms=output.slow_ms))
    day = datetime.now(UTC).date() if today is None else today
    reported, ignored = config.split(report.findings, ignores, day)
    failures = [(failure.analysis, failure.reason) for failure in report.failures]
    document = build(recording, built, reported, ignored=ignored, failures=failures, stalls=report.stalls)
    return Examined(document=document, tables=built)


def write(named: Sequence[tuple[str | None, Mapping[str, Any]]], output: Output, *, fallback: TextIO) -> None:
    """Render documents to `-o`, or to `fallback`; each comes with the name of its recording, if that is kept."""
    from netdiag.render import Options, render

    stream = fallback if output.file is None else None
    color = output.color == "always" if stream is None else wants_color(output.color, stream)
    texts = []
    for name, document in named:
        options = Options(color=color, verbose=output.verbose > 0, rows=output.rows, recording=name)
        texts.append(render(output.format, document, options))
    write_text(("" if output.format == "ndjson" else "\n").join(texts), output.file, fallback, output.reserved)


def reserve(file: Path | None) -> int | None:
    """Open what root will not be able to write without its capabilities: a file in another user's folder."""
    if file is None or os.geteuid() != 0 or "SUDO_UID" in os.environ or (file.exists() and not file.is_file()):
        return None
    folder = file.resolve().parent.stat()
    if folder.st_uid == 0 and folder.st_mode & 0o300 == 0o300:
        return None
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)


def write_text(text: str, file: Path | None, fallback: TextIO | None, reserved: int | None = None) -> None:
    """Write to a file, which is whole or not there at all, or to a stream; to `reserved` in place of the file."""
    if file is None or reserved is None:
        write_pieces([text.encode("utf-8")], file, fallback)
        return
    try:
        os.ftruncate(reserved, 0)
        with os.fdopen(reserved, "wb") as out:
            out.write(text.encode("utf-8"))
    except OSError as error:
        raise UsageError(f"-o {file}: {error.strerror}") from error


def write_pieces(pieces: Iterable[bytes], file: Path | None, fallback: TextIO | None) -> None:
    """Write what need not be in memory as a whole: to a file, which is whole or not there at all, or to a stream."""
    if file is None:
        _to_stream(pieces, fallback)
        return
    try:
        _replace(file, pieces)
    except OSError as error:
        raise UsageError(f"-o {file}: {error.strerror}") from error


def _to_stream(pieces: Iterable[bytes], stream: TextIO | None) -> None:
    if stream is None:  # Python's word for a descriptor that was closed before it started
        raise NetdiagError("the results have nowhere to go: the output is closed", hint="-o FILE writes them to a file")
    try:
        stream.flush()
        for piece in pieces:
            if hasattr(stream, "buffer"):
                stream.buffer.write(piece)  # bytes: a locale that is not UTF-8 must not change what is said
            else:
                stream.write(piece.decode("utf-8"))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(stream)
        raise NetdiagError(f"the results cannot be written: {error.strerror}") from error


def silence(stream: TextIO) -> None:
    """Let the stream lead nowhere: what is still in its buffer would fail again when the process ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _replace(file: Path, pieces: Iterable[bytes]) -> None:
    if file.exists() and not file.is_file():  # a pipe or a device is written to, not replaced
        with file.open("wb") as out:
            out.writelines(pieces)
        return
    target = file.resolve()  # a link keeps pointing to what it points to
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb", _BUFFER_BYTES) as out:
            out.writelines(pieces)
        Path(name).chmod(_mode(target))
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _mode(target: Path) -> int:
    """Return the mode of the file that is replaced, else what a new file of this user gets."""
    with contextlib.suppress(OSError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def check_assertions(output: Output, known: Collection[str]) -> None:
    """Find names that no summary has before the run that they would judge: it may take an hour. UsageError."""
    from netdiag.asserts import parse

    for text in output.assertions:
        parse(text).check_name(known)


def gate(document: Mapping[str, Any], output: Output) -> int:
    """Return 0, or 3 when a finding is as severe as `--fail-on` or an assertion fails; each reason goes to stderr."""
    from netdiag.asserts import parse

    failures = []
    if output.fail_on is not None:
        least = _SEVERITIES.index(output.fail_on)
        severe = [row["code"] for row in document["findings"] if _SEVERITIES.index(row["severity"]) >= least]
        if severe:
            failures.append(f"--fail-on {output.fail_on}: {', '.join(dict.fromkeys(severe))}")
    outcomes = [parse(text).check(document["summary"]) for text in output.assertions]
    failures += [outcome.sentence() for outcome in outcomes if not outcome.holds]
    for failure in failures:
        say(failure)
    return FAILED if failures else 0


def say(text: str) -> None:
    """Write one line to stderr, as far as stderr still exists."""
    from netdiag.text import safe

    with contextlib.suppress(OSError):
        sys.stderr.write(f"netdiag: {safe(text)}\n")
        sys.stderr.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureWishes:
    """What the user said of captures."""

    keylog: Path | None = None
    limits: Limits | None = None
    progress: Progress | None = None


def open_input(name: str, wishes: CaptureWishes | None = None) -> tuple[Recording, str | None]:
    """Return the recording that the user means by a path, `last` or `-`, and the word to name it by in advice.

    A capture of packets is one, too; `wishes` matter to captures alone.
    """
    from netdiag import state
    from netdiag.recording import reader

    if name == "-":
        start = sys.stdin.buffer.read(8)
        if reader.is_recording(start):
            return reader.read(start + sys.stdin.buffer.read()), None
        return _capture(_Chained(start, sys.stdin.buffer), start, "standard input", wishes), None
    path = state.resolve(name)
    try:
        with path.open("rb") as file:
            start = file.read(8)
            if reader.is_recording(start):
                return reader.read(path), name
            if not file.seekable():  # a pipe with a name: what was taken from it does not come again
                return _capture(_Chained(start, file), start, str(path), wishes), None
    except OSError as error:
        raise InputUnreadable(f"{path}: {error.strerror}") from error
    return _capture(path, start, str(path), wishes), name


class _Chained(io.RawIOBase):
    """A pipe of which the first bytes were taken."""

    def __init__(self, start: bytes, rest: IO[bytes]) -> None:
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        """Say so."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to so many bytes."""
        start, self._start = self._start, b""
        return start or self._rest.read(size)


def _capture(source: Path | _Chained, start: bytes, name: str, wishes: CaptureWishes | None) -> Recording:
    """Read a capture; what a large one needs while it is read is given back with the process that reads it."""
    from netdiag import capture, forks
    from netdiag.recording.scratch import scratch

    if capture.kind_of(start) is None:
        raise InputUnreadable(
            f"{name}: neither a recording of netdiag nor a packet capture: its mark is missing at byte 0", hint=_ORIGIN
        )
    wishes = wishes or CaptureWishes()

    def read(progress: Progress | None, spool: capture.Spool) -> Recording:
        return capture.read(
            source,  # type: ignore[arg-type]
            name=name,
            keylog=wishes.keylog,
            limits=wishes.limits,
            progress=progress,
            spool=spool,
        )

    if not isinstance(source, Path) or source.stat().st_size < _LARGE or not forks.can_fork():
        return read(wishes.progress, capture.Spool())
    with scratch() as file:

        def read_apart(tell: Progress) -> Any:
            spool = capture.Spool(file)
            return spool.detached(read(tell, spool))

        return capture.attached(file, forks.apart(read_apart, wishes.progress))


_ORIGIN = (
    "recordings come from `netdiag trace --save FILE`, or are kept as `last`; "
    "captures from tcpdump, dumpcap or Wireshark (pcap, pcapng; gzip, zstd and xz)"
)
