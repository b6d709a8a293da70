# SPDX-License-Identifier: Apache-2.0
"""The options that say whom to trace, and how, as decorators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

__all__ = ["packets_option", "run_options", "target_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


if TYPE_CHECKING:
    _Whole = click.ParamType[int]
else:
    _Whole = click.ParamType  # generic in newer versions of click alone


class _Number(_Whole):
    """A whole number whose range is told when it is left, not in the help."""

    name = "whole number"

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and self._least <= int(text) <= self._most):
            self.fail(f"{text!r} is no whole number from {self._least} to {self._most}", param, ctx)
        return int(text)


_OPTIONS = (
    click.option("--pid", "pids", metavar="P", type=_Number(1, 2**22), multiple=True, help="This process. Repeatable."),
    click.option("--exe", metavar="NAME", multiple=True, help="Programs of this name or path."),
    click.option("--comm", metavar="NAME", multiple=True, help="Threads of this name."),
    click.option("--cgroup", "cgroups", metavar="PATH", multiple=True, help="Processes of this cgroup and below."),
    click.option("--container", "containers", metavar="ID", multiple=True, help="Processes of this container."),
    click.option("--pod", "pods", metavar="NAMESPACE/NAME", multiple=True, help="Processes of this Kubernetes pod."),
    click.option("--port", "ports", metavar="N", type=_Number(1, 65535), multiple=True, help="Either end's port."),
    click.option("--host", "hosts", metavar="NAME|CIDR", multiple=True, help="The other end: name or network."),
    click.option("--no-follow", is_flag=True, help="Leave out the later children of the processes."),
)


_RUN = (
    click.option("--probe", "probes", metavar="LIST", help="Only these probes, with commas. See `netdiag probes`."),
    click.option(
        "--if-unavailable",
        type=click.Choice(("run", "fail")),
        default="fail",
        show_default=True,
        help="What to do with CMD where no probe can load.",
    ),
    click.option("--as-root", is_flag=True, help="Under sudo: run CMD as root, not as the user who called."),
    click.option("--keep-argv", is_flag=True, help="Record the values in command lines as well."),
)

packets_option = click.option(
    "--save-packets",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the handshake packets of connections that findings name as pcapng, for Wireshark.",
)


def run_options(function: Command) -> Command:
    """Add `--probe`, `--if-unavailable`, `--as-root` and `--keep-argv` to a command that traces."""
    for option in reversed(_RUN):
        function = option(function)
    return function


def target_options(function: Command) -> Command:
    """Add the options to a command, which gets them as one argument `target`."""

    @functools.wraps(function)
    def wrapped(**values: Any) -> Any:
        from netdiag.processes import Target

        names = ("pids", "exe", "comm", "cgroups", "containers", "pods", "ports", "hosts")
        target = Target(**{name: values.pop(name) for name in names}, follow=not values.pop("no_follow"))
        return function(target=target, **values)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]
