# SPDX-License-Identifier: Apache-2.0
"""`netdiag probes`: what the probes are, what they attach to and what they record."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from netdiag.cli.options import format_option

if TYPE_CHECKING:
    from netdiag.manifest import Probe

__all__ = ["command"]


@click.command("probes", short_help="List what the probes record.")
@click.argument("name", required=False)
@format_option("table", "json")
def command(name: str | None, format_: str) -> None:
    """List the probes; with NAME, show what that one attaches to and every column it records.

    \b
    netdiag probes
    netdiag probes tcp
    """  # noqa: D301 - click reads the control character
    from netdiag.cli.results import write_text
    from netdiag.values import dumps

    chosen = _chosen(name)
    if format_ == "json":
        text = "[\n" + ",\n".join(dumps(_as_json(probe)) for probe in chosen) + "\n]\n"
    elif name is None:
        text = "".join(f"{line}\n" for line in _list(chosen))
    else:
        text = "".join(f"{line}\n" for line in _detail(chosen[0]))
    write_text(text, None, sys.stdout)


def _chosen(name: str | None) -> tuple[Probe, ...]:
    from netdiag import manifest
    from netdiag.errors import UsageError

    probes = manifest.probes()
    if name is None:
        return probes
    chosen = tuple(probe for probe in probes if probe.name == name)
    if not chosen:
        raise UsageError(f"no probe {name!r}", hint=f"there are {', '.join(probe.name for probe in probes)}")
    return chosen


def _list(probes: tuple[Probe, ...]) -> Iterator[str]:
    from netdiag.render.layout import wrap

    for probe in probes:
        state = "on by default" if probe.default else "on request: --probe"
        streams = ", ".join(stream.name for stream in probe.streams)
        texts = [*wrap(f"{probe.title} ({state}; records {streams})", 68), *wrap(probe.help, 68)]
        yield from (f"{'' if row else probe.name:<12}{line}" for row, line in enumerate(texts))


def _detail(probe: Probe) -> Iterator[str]:
    from netdiag.render.layout import wrap
    from netdiag.text import fit

    yield f"{probe.name}: {probe.title}"
    yield from wrap(probe.help, 80)
    yield f"needs kernel {probe.kernel} or newer, {', '.join(probe.capabilities)}"
    yield ""
    yield "attaches to"
    for attach in probe.attach:
        need = "required" if attach.required else "optional"
        yield f"  {fit(attach.section, 38)} {need}"
        yield from (f"      {line}" for line in wrap(attach.gives, 74))
    for stream in probe.streams:
        yield ""
        yield f"records {stream.name} (struct {stream.struct})"
        for column in stream.columns:
            about = f"{column.title}: {column.help}"
            for row, line in enumerate(wrap(about, 59)):
                yield f"  {fit(column.name if not row else '', 18)} {line}"


def _as_json(probe: Probe) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(probe)
