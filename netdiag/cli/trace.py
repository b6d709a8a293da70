# SPDX-License-Identifier: Apache-2.0
"""`netdiag trace`: trace a command, processes or the machine, and print findings at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from netdiag.cli.options import Output, output_options
from netdiag.cli.targets import packets_option, run_options, target_options
from netdiag.errors import NetdiagError, Unsupported, UsageError

if TYPE_CHECKING:
    from netdiag.processes import Target
    from netdiag.recording.reader import Recording
    from netdiag.tracing.request import TraceRequest, TraceResult

__all__ = ["command", "exit_status", "farewell", "save_packets"]

_INTERRUPTED = 130
_NEEDS_FILE = ("json", "ndjson", "csv")


@click.command(
    "trace",
    short_help="Trace the connections of a program or of the machine, and say what is slow.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@target_options
@click.option("--duration", metavar="S", type=float, help="End after S seconds; CMD runs on.")
@click.option("--save", metavar="FILE", type=click.Path(path_type=Path), help="Keep the recording as FILE.")
@packets_option
@click.option("--no-keep", is_flag=True, help="Keep no recording as `last`.")
@click.option("--remember", is_flag=True, help="Add it to the baselines. See `netdiag baseline`.")
@run_options
@click.option(
    "--live-lines/--no-live-lines", default=None, help="Print each connection as it ends. [default: without CMD]"
)
@output_options
@click.argument("argv", metavar="[-- CMD ARG...]", nargs=-1, type=click.UNPROCESSED)
def command(*, target: Target, argv: tuple[str, ...], live_lines: bool | None, output: Output, **chosen: Any) -> int:
    """Trace the TCP connections of CMD, of the processes that match, or of the whole machine.

    Probes are armed before CMD starts. Only the recorder asks for privileges: CMD stays
    the caller's. With CMD its stdout stays its own and the report goes to stderr. Without
    CMD tracing ends after --duration, on Ctrl-C, or when the last --pid has ended.

    \b
    netdiag trace -- python app.py
    netdiag trace --pid 4711 --duration 30
    netdiag trace --host api.example.com --format json -o trace.json -- ./client
    """  # noqa: D301 - click reads the control character
    if sys.platform != "linux":
        hint = "recordings made on Linux can be read here: netdiag analyze FILE, netdiag report FILE"
        raise Unsupported(f"tracing needs the Linux kernel, and this is {sys.platform}", hint=hint)
    from netdiag.cli.live import Progressing

    request = _request(target, argv, chosen)
    _check(request, output, chosen["save_packets"])
    from netdiag.cli.results import reserve, say
    from netdiag.tracing import trace

    output = dataclasses.replace(output, reserved=reserve(output.file))

    watcher = Progressing(lines=not argv if live_lines is None else live_lines, counter=not argv)
    try:
        result = trace(request, watcher, say, _prepare)
    finally:
        watcher.close()
    try:
        return _finish(request, result, output, chosen["save_packets"], remembered=chosen["remember"])
    except NetdiagError as error:
        error.exit_code = result.command_status or error.exit_code  # the command's own status comes first here as well
        raise
    finally:
        result.discard()


def _request(target: Target, argv: tuple[str, ...], chosen: Mapping[str, Any]) -> TraceRequest:
    from netdiag.tracing.request import IfUnavailable, TraceRequest

    probes = [name.strip() for name in (chosen["probes"] or "").split(",")]
    return TraceRequest(
        target=target,
        command=argv,
        duration_s=chosen["duration"],
        save=chosen["save"],
        keep=not chosen["no_keep"],
        probes=tuple(name for name in probes if name),
        if_unavailable=IfUnavailable(chosen["if_unavailable"]),
        as_root=chosen["as_root"],
        keep_argv=chosen["keep_argv"],
        options={"packets": True} if chosen["save_packets"] else {},
    )


def _check(request: TraceRequest, output: Output, packets: Path | None = None) -> None:
    if request.command and output.format in _NEEDS_FILE and output.file is None:
        raise UsageError(
            f"--format {output.format} with a command needs -o FILE",
            hint="stdout belongs to the command: its output stays whole",
        )
    _check_assertions(output)
    if request.duration_s is not None and not 0 < request.duration_s < 1e9:
        raise UsageError("--duration needs a number of seconds above 0")
    if packets is not None and not packets.absolute().parent.is_dir():
        raise UsageError(f"--save-packets {packets}: there is no such folder")
    if request.save is not None and not request.save.absolute().parent.is_dir():
        raise UsageError(f"--save {request.save}: there is no such folder")


def _prepare() -> None:
    """Import what turns a recording into results, which takes half a second: Ctrl-C promises them within one."""
    with contextlib.suppress(ImportError):  # it is told when it is needed, beside a recording that is kept
        import netdiag.analysis
        import netdiag.document
        import netdiag.recording.reader
        import netdiag.render
        import netdiag.tables  # noqa: F401


def _check_assertions(output: Output) -> None:
    if output.assertions:
        from netdiag import asserts
        from netdiag.cli.results import check_assertions
        from netdiag.summary import summarize

        known = set(asserts.names(summarize({"connections": [], "handshakes": [], "requests": []})))
        known |= {name.replace(".connect.", ".queue.") for name in known}  # there only where calls waited
        check_assertions(output, known)


def _finish(
    request: TraceRequest, result: TraceResult, output: Output, packets: Path | None, *, remembered: bool = False
) -> int:
    from netdiag.cli.results import examine, gate, say, write
    from netdiag.recording import reader

    gated = 0
    if result.recording is not None:
        name = None if result.temporary else "last" if request.save is None else str(request.save)
        recording = reader.read(result.recording)
        examined = examine(recording, output)
        document = examined.document
        write([(name, document)], output, fallback=_stream(request))
        gated = gate(document, output)
        if packets is not None:  # after the results: a full disk must not take them away
            say(save_packets(packets, recording, document))
        if remembered:
            from netdiag.cli.baseline import remember

            say(remember(recording, examined.tables))
    say(farewell(request, result))
    return exit_status(result, gated)


def save_packets(path: Path, recording: Recording, document: Mapping[str, Any]) -> str:
    """Write the packets behind the findings; return the line that says so."""
    from netdiag.capture.evidence import pcapng, select

    refused = next((str(fact.get("reason")) for fact in recording.facts_of("no_packets")), None)
    if refused:
        return f"--save-packets: no packets were captured: {refused}"
    found = select(recording.facts_of("packet"), recording.header["clock"], document)
    named = sum(one.comment is not None for one in found)
    what = f"{len(found)} packets of {named} connections that findings name"
    comment = f"{what}: openings, endings and handshakes; application data and secrets were left out"
    try:
        path.write_bytes(pcapng(found, comment=comment))
    except OSError as error:
        raise UsageError(f"--save-packets {path}: {error.strerror}") from error
    return f"{path}: {what}"


def _stream(request: TraceRequest) -> TextIO:
    return sys.stderr if request.command else sys.stdout


def exit_status(result: TraceResult, gated: int) -> int:
    """Return the command's own status where it is not 0, else 3 for a failed gate, 130 for nothing recorded, or 0."""
    if result.command_status:
        return result.command_status
    if result.recording is None and result.exit_reason == "interrupted":
        return _INTERRUPTED
    return gated


def farewell(request: TraceRequest, result: TraceResult) -> str:
    """Return the last line on stderr: who ended the trace and why."""
    why = {
        "command-exited": f"the command ended{_status(result.command_status)}",
        "duration": f"--duration of {request.duration_s or 0:g} s was over",
        "interrupted": "Ctrl-C, or another signal to end",
        "targets-exited": "the last traced process ended",
        "ready": "what --until waits for came",
        "recorder-died": "the recorder ended early; what it had written was used",
    }
    if result.recording is None and result.command_status in _NEVER_RAN:
        return _NEVER_RAN[result.command_status]
    reason = why.get(str(result.exit_reason), str(result.exit_reason))
    return f"ended: {reason}"


_NEVER_RAN = {126: "nothing was traced: the command cannot be executed", 127: "nothing was traced: no such command"}


def _status(status: int | None) -> str:
    if status is None:
        return ""
    return f" by signal {status - 128}" if status > 128 else f" with status {status}"
