# SPDX-License-Identifier: Apache-2.0
"""`netdiag report`: one page that a person reads and passes on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netdiag.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netdiag.cli.options import Output
    from netdiag.recording.reader import Recording
    from netdiag.render.html import Part

__all__ = ["command"]

_MOST_ROUTES = 8
"""Ways that a page shows."""


@click.command("report", short_help="Write a recording as a page to read and to pass on.")
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True)
@click.option(
    "-o",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The page, FILE.html, or for a ticket FILE.md; `-`: the page to standard output. "
    "[default: a summary in the terminal]",
)
@click.option(
    "--template",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Files there take the place of the shipped ones: style.css, trace.html.j2, report.html.j2, page.js.",
)
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Accepted findings. See `analyze`.")
@click.option(
    "--slow-ms",
    metavar="MS",
    type=click.FloatRange(min=0),
    default=500.0,
    show_default=True,
    help="A server's answer is slow from here on.",
)
@click.option("--no-routes", is_flag=True, help="Leave out the ways to its hosts that `route-check` has stored.")
def command(
    recordings: tuple[str, ...],
    *,
    file: Path | None,
    template: Path | None,
    config: Path | None,
    slow_ms: float,
    no_routes: bool,
) -> None:
    """Write each RECORDING (also a capture, `-` or `last`) into one HTML page that loads nothing from elsewhere.

    \b
    netdiag report last
    netdiag report last -o slow.html
    netdiag report before.netdiag after.netdiag -o both.html
    netdiag report last -o ticket.md
    """  # noqa: D301 - click reads the control character
    from netdiag import bulk
    from netdiag.cli.options import Output, wants_color
    from netdiag.cli.results import examine, open_input, say, write_text
    from netdiag.render import Options, render
    from netdiag.render.activity import activity
    from netdiag.render.cadence import pieces

    if template is not None and not template.is_dir():
        raise UsageError(f"--template {template}: there is no such folder")
    output = Output(format="html", config=config, slow_ms=slow_ms)
    form = "table" if file is None else "markdown" if file.suffix.lower() in {".md", ".markdown"} else "html"
    if form != "html" and template is not None:
        raise UsageError("--template is of pages", hint="-o FILE.html")
    color = wants_color("auto", sys.stdout)
    texts, parts = [], []
    for name in recordings:
        found, _ = open_input(name)
        shown = "" if name in {"-", "last"} else Path(name).name
        if bulk.is_long(found):
            long = _long(found, output, shown, routes=not no_routes)
            if form != "html":
                texts.append(render(form, long.document, Options(color=color, partial=True, recording=name)))
            else:
                parts.append(long)
            continue
        examined = examine(found, output)
        if form != "html":
            known = None if name == "-" else name
            texts.append(render(form, examined.document, Options(color=color, recording=known)))
            continue
        from netdiag.render.html import Part  # jinja2

        drawn = activity(examined.tables)
        parts.append(
            Part(
                document=examined.document,
                name=shown,
                activity=drawn,
                arrived=pieces(examined.tables),
                routes=() if no_routes else _routes(examined.document),
            )
        )
    target = None if str(file) == "-" else file
    write_text("\n".join(texts) if form != "html" else _page(parts, template), target, sys.stdout)
    if target is not None:
        say(f"wrote {target}")


def _routes(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the stored ways to the hosts of a recording, the one with most time first."""
    from netdiag.render.route_shown import shown
    from netdiag.route.kept import latest

    hosts = [row["host"] for row in document["summary"]["by_host"] if row["host"]]
    known = latest(hosts)
    return [shown(host, known[host]) for host in dict.fromkeys(hosts) if host in known][:_MOST_ROUTES]


def _long(found: Recording, output: Output, name: str, *, routes: bool) -> Part:
    """Return a recording of which not all rows can be in memory, with the figures of all."""
    from netdiag.bulk import figures, shown
    from netdiag.cli.results import judged
    from netdiag.render.html import Part

    seen = judged(found, output, None)
    if seen.whole is None:
        raise AssertionError("a long recording")
    document = shown.document(found, seen.whole, seen.findings, ignored=seen.ignored, failures=seen.failures)
    tables = seen.tables
    return Part(
        document=document,
        name=name,
        activity=seen.whole.activity,
        arrived=seen.whole.arrived,
        routes=_routes(document) if routes else (),
        counts=(len(tables.requests), len(tables.connections)),
        values={measure: figures.known(tables.requests, measure) for measure in figures.MEASURES},
    )


def _page(parts: list[Part], template: Path | None) -> str:
    from netdiag.render.html import page

    return page(parts, templates=template)
