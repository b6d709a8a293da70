# SPDX-License-Identifier: Apache-2.0
"""`netdiag weights`: trace how model weights get from disk to memory to the GPU, and say what slows it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netdiag.cli.options import Output, output_options
from netdiag.cli.targets import packets_option, target_options
from netdiag.errors import NetdiagError, Unsupported, UsageError

if TYPE_CHECKING:
    from netdiag.cli.weights_look import Looks
    from netdiag.processes import Target
    from netdiag.tracing.request import TraceRequest, TraceResult
    from netdiag.weights.model import Load

__all__ = ["ASSERTED", "command"]

_NEEDS_FILE = ("json", "ndjson", "csv")
_PROBES = ("process", "weights")
_FURTHER = ("compare", "serving", "show", "snapshot")
ASSERTED = ("wall_ms", "bytes", "files", "blocked_share", "cached_share")
"""What `--assert` can name: the document's `summary`."""


class _Weights(click.Command):
    """A command that also has commands of its own; a program of such a name is meant by `-- compare`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in _FURTHER:
            found: click.Command = import_module(f"netdiag.cli.weights_{args[0]}").command
            return found.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)


@click.command(
    "weights",
    cls=_Weights,
    short_help="Say how model weights get from disk to memory to the GPU, and what slows it.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@target_options
@click.option("--duration", metavar="S", type=float, help="End after S seconds; CMD runs on.")
@click.option("--save", metavar="FILE", type=click.Path(path_type=Path), help="Keep the recording as FILE.")
@packets_option
@click.option("--no-keep", is_flag=True, help="Keep no recording as `last`.")
@click.option("--probe", "probes", metavar="LIST", help="Only these probes, with commas; weights is always among them.")
@click.option(
    "--until",
    metavar="ready|URL|REGEX",
    help="End when CMD's server is ready, URL answers, or a line of CMD's output matches; CMD runs on.",
)
@click.option(
    "--tier",
    type=click.Choice(("auto", "light", "procfs")),
    default="auto",
    show_default=True,
    help="light: kernel programs; procfs: /proc alone, without rights; auto: light where it can be.",
)
@click.option(
    "--verify",
    metavar="[ask|read|cold]",
    type=click.Choice(("ask", "read", "cold")),
    is_flag=False,
    flag_value="ask",
    help="Measure what the advice brings on the same file. ask: ask before it is read again; read: yes; cold: "
    "and its pages may leave memory for that.",
)
@click.option(
    "--if-unavailable",
    type=click.Choice(("run", "fail")),
    help="What to do with CMD where no probe can load. [default: look by /proc alone]",
)
@click.option(
    "--gpu",
    type=click.Choice(("auto", "on", "off")),
    default="auto",
    show_default=True,
    help="Look at NVIDIA GPUs as well; auto: where their driver is.",
)
@click.option("--as-root", is_flag=True, help="Under sudo: run CMD as root, not as the user who called.")
@click.option("--keep-argv", is_flag=True, help="Record the values in command lines as well.")
@output_options
@click.argument("argv", metavar="[-- CMD ARG...]", nargs=-1, type=click.UNPROCESSED)
def command(*, target: Target, argv: tuple[str, ...], output: Output, **chosen: Any) -> int:
    """Trace how CMD, or the processes that match, bring files into memory.

    Where the time of the loading thread went is printed as a sum, with the cause that costs
    most first. No setting is written, and no cache dropped but where --verify was allowed to.

    \b
    netdiag weights -- python load.py
    netdiag weights --pid 4711 --duration 60
    netdiag weights --until ready -- vllm serve MODEL
    netdiag weights show last
    netdiag weights compare FILE
    netdiag weights serving http://127.0.0.1:8000/metrics
    netdiag weights snapshot SNAPSHOT.pickle
    """  # noqa: D301 - click reads the control character
    if sys.platform != "linux":
        raise Unsupported(f"tracing needs the Linux kernel, and this is {sys.platform}")
    from netdiag.cli.results import reserve, say
    from netdiag.cli.weights_look import Looks
    from netdiag.tracing import trace
    from netdiag.weights.ending import checked

    request = _request(target, argv, chosen)
    _check(request, output, chosen["save_packets"])
    wanted = chosen["until"] and checked(chosen["until"], command=bool(argv))
    output = dataclasses.replace(output, reserved=reserve(output.file))
    looks = Looks(request, until=wanted, gpu=chosen["gpu"])
    try:
        result = trace(looks.request, None, say)
    finally:
        looks.stop()
    try:
        status = _finish(looks, result, output, chosen["verify"])
        if chosen["save_packets"] and result.recording is not None:
            _save_packets(chosen["save_packets"], result.recording, output)
        return status
    except NetdiagError as error:
        error.exit_code = result.command_status or error.exit_code
        raise
    finally:
        result.discard()


def _request(target: Target, argv: tuple[str, ...], chosen: Mapping[str, Any]) -> TraceRequest:
    from netdiag.tracing.request import IfUnavailable, Recording, TraceRequest

    return TraceRequest(
        target=target,
        command=argv,
        duration_s=chosen["duration"],
        save=chosen["save"],
        keep=not chosen["no_keep"],
        probes=_probes(chosen),
        options={"packets": True} if chosen["save_packets"] else {},
        if_unavailable=IfUnavailable(chosen["if_unavailable"] or "fail"),
        recording=Recording.NONE
        if chosen["tier"] == "procfs"
        else Recording.REQUIRED
        if chosen["tier"] == "light" or chosen["if_unavailable"]
        else Recording.OPTIONAL,
        as_root=chosen["as_root"],
        keep_argv=chosen["keep_argv"],
    )


def _probes(chosen: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the probes; packets are those of connections, so these are followed where packets are asked for."""
    named = tuple(name for word in (chosen["probes"] or "").split(",") if (name := word.strip()))
    more = ("tcp", "tls") if chosen["save_packets"] else ()
    return tuple(dict.fromkeys((*(named or _PROBES), "weights", *more)))


def _check(request: TraceRequest, output: Output, packets: Path | None = None) -> None:
    from netdiag.cli.results import check_assertions

    target = request.target
    if not (request.command or target.pids or target.exe or target.cgroups or target.containers or target.pods):
        raise UsageError(
            "name a command or whom to trace: the whole machine would be too much",
            hint="netdiag weights -- python load.py, or netdiag weights --pid P",
        )
    check_assertions(output, ASSERTED)
    if request.command and output.format in _NEEDS_FILE and output.file is None:
        raise UsageError(
            f"--format {output.format} with a command needs -o FILE",
            hint="stdout belongs to the command: its output stays whole",
        )
    if packets is not None and not packets.absolute().parent.is_dir():
        raise UsageError(f"--save-packets {packets}: there is no such folder")
    if request.duration_s is not None and not 0 < request.duration_s < 1e9:
        raise UsageError("--duration needs a number of seconds above 0")
    if request.save is not None and not request.save.absolute().parent.is_dir():
        raise UsageError(f"--save {request.save}: there is no such folder")


def _finish(looks: Looks, result: TraceResult, output: Output, verify: str | None = None) -> int:
    from netdiag.cli.results import gate, say
    from netdiag.cli.trace import exit_status, farewell

    gated = 0
    ran = result.command_status not in (126, 127)
    if ran and (result.recording is not None or looks.alone):
        document = _document(looks, result, output, verify)
        _write(document, output, to_stderr=bool(looks.request.command))
        gated = gate(document, output)
    say(farewell(looks.request, result))
    return exit_status(result, gated)


def _document(looks: Looks, result: TraceResult, output: Output, verify: str | None = None) -> dict[str, Any]:
    from datetime import UTC, datetime

    from netdiag import config
    from netdiag.cli.weights_verify import verified
    from netdiag.weights.document import build
    from netdiag.weights.gpus import claims, gpus_of, phases_of, to_json
    from netdiag.weights.judge import order

    ignores = config.load(output.config)
    source, examined = looks.examined(result)
    gpus, missing = (
        ([], [("GPU", "no NVIDIA driver on this machine")])
        if looks.gpu_rows is None
        else gpus_of(looks.gpu_rows, source.start_ns)
    )
    found = order([*examined.findings, *claims(gpus)])
    reported, ignored = config.split(found, ignores, datetime.now(UTC).date())
    return build(
        source,
        examined.load,
        examined.memory,
        reported,
        ignored=ignored,
        gpus=[to_json(gpu) for gpu in gpus],
        phases=next((some for gpu in gpus if (some := phases_of(gpu))), []),
        missing=[*missing, *looks.missing()],
        verified=verified(reported, verify, _largest(examined.load)) if verify else (),
    )


def _save_packets(path: Path, recording: Path, output: Output) -> None:
    """Write the handshake packets of connections that the findings of a trace name."""
    from netdiag.cli.results import examine, say
    from netdiag.cli.trace import save_packets
    from netdiag.recording import reader

    read = reader.read(recording)
    say(save_packets(path, read, examine(read, output).document))


def _largest(load: Load) -> str | None:
    from netdiag.weights.case import is_weights

    return next((file.path for file in load.files if is_weights(file) and file.path.startswith("/")), None)


def _write(document: Mapping[str, Any], output: Output, *, to_stderr: bool) -> None:
    from netdiag.cli.options import wants_color
    from netdiag.cli.results import write_text
    from netdiag.render import Options
    from netdiag.render.weights import render

    fallback = sys.stderr if to_stderr else sys.stdout
    color = output.color == "always" if output.file else wants_color(output.color, fallback)
    options = Options(color=color, verbose=output.verbose > 0, rows=output.rows)
    write_text(render(output.format, document, options), output.file, fallback, output.reserved)
