# SPDX-License-Identifier: Apache-2.0
"""`netdiag scrub`: a copy of a recording without hosts, paths and arguments."""

from __future__ import annotations

import os
from pathlib import Path

import click

__all__ = ["command"]


@click.command("scrub", short_help="Copy a recording without hosts, paths and arguments, to pass it on.")
@click.argument("recording", metavar="RECORDING")
@click.option(
    "-o", "file", metavar="FILE", type=click.Path(path_type=Path), required=True, help="The copy; a new file."
)
def command(recording: str, file: Path) -> None:
    """Copy RECORDING (a file, `-` or `last`) to FILE without what names people or machines.

    Times, sizes, ports, outcomes and program names stay, so the findings do. Addresses
    become others, host names, paths, arguments, container and pod names are left out.

    \b
    netdiag scrub last -o to-mail.netdiag
    """  # noqa: D301 - click reads the control character
    from netdiag.cli.results import open_input, say
    from netdiag.errors import UsageError
    from netdiag.scrub import scrub

    found, _ = open_input(recording)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"-o {file}: {error.strerror}", hint="the copy is a new file in a folder that exists"
        ) from error
    try:
        scrub(found, descriptor)
    except OSError as error:
        file.unlink(missing_ok=True)
        raise UsageError(f"-o {file}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    say(f"wrote {file}")
