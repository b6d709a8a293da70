# SPDX-License-Identifier: Apache-2.0
"""The entry of the command line, and the only place where an error becomes text and an exit status.

A command's module is imported when the command is called: `netdiag --help` imports none of them, and neither NumPy nor
pandas nor a template engine (together 0.5 s).
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import click

from netdiag import __version__
from netdiag.errors import NetdiagError

__all__ = ["COMMANDS", "cli", "main", "run"]

COMMANDS: tuple[tuple[str, str], ...] = (
    ("trace", "Trace the connections of a program or of the machine, and say what is slow."),
    ("live", "Show a trace, running or kept, as a dashboard in the terminal."),
    ("analyze", "Say the same of a recording or a packet capture, without root."),
    ("route-check", "Check the way to a host: networks, places, detours, addresses."),
    ("weights", "Say how model weights get from disk to memory to the GPU, and what slows it."),
    ("report", "Write a recording as a page to read and to pass on."),
    ("compare", "Say what got slower or faster, with a gate for releases."),
    ("baseline", "Show or forget what calls usually take."),
    ("export", "Write a recording in the form of another tool."),
    ("explain", "Explain what a finding or a figure means."),
    ("demo", "Trace a local API and a client with a fault, as a first look."),
    ("lab", "Run a known fault on loopback and see it found."),
    ("doctor", "Show what this machine can do, and how to get what it cannot."),
    ("probes", "List what the probes record."),
    ("dump", "Print the raw records of a recording."),
    ("scrub", "Copy a recording without hosts, paths and arguments, to pass it on."),
    ("schema", "Print the JSON Schema of the output."),
)
"""Name and one sentence of each command; `netdiag/cli/NAME.py` holds it as `command`."""

_DATA = "networks of addresses: data of RouteViews, DB-IP (db-ip.com) and NRO, CC BY 4.0, reduced"
INTERRUPTED = 130
_BROKEN_PIPE = 141  # 128 + SIGPIPE, as a program that the signal ends
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
"""What writing to standard output fails with, where it is a file on a full or broken disk."""


class _ReaderGone(Exception):  # noqa: N818 - not an error: nobody reads on
    """A BrokenPipeError under a name of its own: click would end with status 1 on it."""


@contextmanager
def _reader_watched() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderGone from error


class _Commands(click.Group):
    """A group that knows its commands by name and imports one when it is called."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _reader_watched():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _reader_watched():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [name for name, _ in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in dict(COMMANDS):
            return None
        command: click.Command = import_module(f"netdiag.cli.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in dict(COMMANDS):
            raise click.UsageError(_no_command(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(COMMANDS)


def _no_command(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, dict(COMMANDS), n=1)
    return f"no command {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


@click.command(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, "--version", "-V", message=f"netdiag %(version)s\n{_DATA}")
@click.pass_context
def cli(context: click.Context) -> int:
    """Say which millisecond of an HTTPS or LLM API call went where, why, and what to change.

    \b
    netdiag trace -- python app.py      trace a program from its first connection
    netdiag trace --pid 4711            trace one that runs
    netdiag report last -o slow.html    the last trace as a page
    """  # noqa: D301 - click reads the control character
    if context.invoked_subcommand is not None:
        return 0
    _say(context.get_help())
    return 2


def run(args: Sequence[str]) -> int:
    """Run one command line and return the exit status; errors are told on stderr."""
    try:
        status: Any = cli.main(list(args), prog_name="netdiag", standalone_mode=False)
    except NetdiagError as error:
        return _told(error)
    except click.ClickException as error:
        return _usage(error)
    except (click.Abort, KeyboardInterrupt):
        _say("netdiag: interrupted")
        return INTERRUPTED
    except (BrokenPipeError, _ReaderGone):
        return _unread()
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        return _unwritable(error)
    return status if isinstance(status, int) else 0


def _unread() -> int:
    """Whoever read our output has gone; nothing may be written to it at exit either."""
    from netdiag.cli.results import silence

    silence(sys.stdout)
    return _BROKEN_PIPE


def _unwritable(error: OSError) -> int:
    """Tell that help, version or a list, which click or a command printed, did not arrive."""
    from netdiag.cli.results import silence

    silence(sys.stdout)
    _say(f"netdiag: error: the output cannot be written: {error.strerror}")
    return NetdiagError.exit_code


def _told(error: NetdiagError) -> int:
    from netdiag.text import safe  # here, not above: a page of help needs it not

    if error.hint:
        _say(f"netdiag: {safe(error.hint)}")
    _say(f"netdiag: error: {safe(error.message)}")
    return error.exit_code


def _usage(error: click.ClickException) -> int:
    from netdiag.text import safe

    context = getattr(error, "ctx", None)
    if context is not None:
        _say(f"netdiag: try '{context.command_path} --help'")
    _say(f"netdiag: error: {safe(error.format_message())}")
    return 2


def _say(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:  # stderr is closed: the exit status must still be right
        return


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    sys.exit(run(sys.argv[1:]))
