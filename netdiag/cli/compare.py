# SPDX-License-Identifier: Apache-2.0
"""`netdiag compare`: what got slower or faster, and whether a gate says no."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netdiag.cli.options import COLORS, SEVERITIES, Output, format_option, wants_color
from netdiag.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netdiag.compare import Sample

__all__ = ["command"]

_BASELINE = "baseline"
_SPLITS = ("model", "host", "ip")


@click.command("compare", short_help="Say what got slower or faster, with a gate for releases.")
@click.argument("inputs", metavar="A [B]", nargs=-1, required=True)
@click.option("--split", type=click.Choice(_SPLITS), help="Compare groups of calls of one recording: a canary.")
@click.option(
    "--against", metavar="NAME", help="--split: the group that the others are compared with. [default: most calls]"
)
@click.option(
    "--gate", "rules", metavar="FILE", type=click.Path(path_type=Path), help="Rules in TOML, for the usual ones."
)
@click.option("--no-gate", is_flag=True, help="Compare only; never exit 3.")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    help="Exit 3 on a cause at least this severe that B has and A has not.",
)
@click.option("-o", "file", metavar="FILE", type=click.Path(path_type=Path), help="Write the result to FILE.")
@click.option("--color", type=click.Choice(COLORS), default="auto", show_default=True, help="Colour the table.")
@format_option("table", "json", "markdown")
def command(  # noqa: PLR0913 - one for each option
    inputs: tuple[str, ...],
    *,
    split: str | None,
    against: str | None,
    rules: Path | None,
    no_gate: bool,
    fail_on: str | None,
    file: Path | None,
    color: str,
    format_: str,
) -> int:
    """Compare A, what was, with B: recordings, captures, `last`, or `baseline` (what --remember learned of B's hosts).

    Exit 3 when the gate is raised: p99 of the whole call more than 15 ms up, errors 0.8
    points up, or reuse of connections 20 points down, each only where chance is no explanation.

    \b
    netdiag compare before.netdiag after.netdiag
    netdiag compare baseline last --gate gate.toml
    netdiag compare last --split model
    netdiag compare before.netdiag after.netdiag --fail-on warning
    """  # noqa: D301 - click reads the control character
    from netdiag import compare
    from netdiag.cli.results import FAILED, write_text
    from netdiag.render import compare as shown
    from netdiag.values import dumps

    if rules is not None and no_gate:
        raise UsageError("--gate or --no-gate, not both")
    limits = () if no_gate else compare.load(rules)
    pairs = _groups(inputs, split, against) if split else _sides(inputs, against)
    document = compare.build(pairs, limits, split=split)
    if format_ == "json":
        text = dumps(document) + "\n"
    elif format_ == "markdown":
        text = shown.markdown(document)
    else:
        text = shown.table(document, color=color == "always" if file else wants_color(color, sys.stdout))
    write_text(text, file, sys.stdout)
    return FAILED if _new_causes(document, fail_on) or document["raised"] else 0


def _new_causes(document: Mapping[str, Any], fail_on: str | None) -> bool:
    """Tell, also on stderr, whether there are causes that came up; UsageError where nobody looked for causes."""
    from netdiag.cli.results import say

    if fail_on is None:
        return False
    if any("baseline" in (one["a"]["kind"], one["b"]["kind"]) for one in document["comparisons"]):
        raise UsageError("--fail-on compares causes, and a baseline holds none", hint="compare two recordings")
    loud = SEVERITIES[SEVERITIES.index(fail_on) :]
    new = [
        row["code"]
        for one in document["comparisons"]
        for row in one["causes"]
        if row["change"] == "new" and row["severity"] in loud
    ]
    if new:
        say(f"--fail-on {fail_on}: new in B: {', '.join(dict.fromkeys(new))}")
    return bool(new)


def _sides(inputs: tuple[str, ...], against: str | None) -> list[tuple[Sample, Sample]]:
    if against is not None:
        raise UsageError("--against is of --split")
    if len(inputs) != 2:
        raise UsageError("compare takes two inputs", hint="or one and --split model, host or ip")
    if inputs.count(_BASELINE) == 2:
        raise UsageError("a baseline and a recording are compared, not two baselines")
    known = {name: _sample(name) for name in dict.fromkeys(inputs) if name != _BASELINE}
    first, second = (
        known[name][0] if name != _BASELINE else _baseline(next(iter(known.values()))[1]) for name in inputs
    )
    return [(first, second)]


def _groups(inputs: tuple[str, ...], split: str, against: str | None) -> list[tuple[Sample, Sample]]:
    from netdiag import compare, loading
    from netdiag.cli.results import judged

    if len(inputs) != 1:
        raise UsageError("--split takes one recording")
    loaded = judged(loading.read(inputs[0]), Output(), None)
    groups = compare.split(loaded.tables, loaded.findings, split)
    first = next((one for one in groups if against in {None, one.name}), None)
    if first is None:
        names = ", ".join(one.name for one in groups) or "none"
        raise UsageError(f"--against {against}: no such group", hint=f"there are: {names}")
    rest = [one for one in groups if one is not first]
    if not rest:
        raise UsageError(f"--split {split}: all calls are of one group, {first.name}")
    return [(first, one) for one in rest]


def _sample(name: str) -> tuple[Sample, set[str]]:
    """Return a recording as a side, and the hosts that it called."""
    from netdiag import compare, loading
    from netdiag.cli.results import judged
    from netdiag.compare.samples import asked, groups_of
    from netdiag.values import rfc3339

    recording = loading.read(name)
    loaded = judged(recording, Output(), None)
    header = recording.header
    kind = "capture" if header["tier"] == "capture" else "recording"
    started = rfc3339(int(header["clock"]["realtime_ns"]))
    requests = asked(loaded.tables)
    hosts = {str(host) for host in groups_of(loaded.tables, requests, "host").dropna().unique()}
    return compare.sample(loaded.tables, loaded.findings, name=name, kind=kind, started=started), hosts


def _baseline(hosts: set[str]) -> Sample:
    from netdiag.baseline import open_store
    from netdiag.baseline.figures import to_sample
    from netdiag.errors import InputUnreadable

    with open_store() as store:
        found = [
            (dimension, figures) for (scenario, dimension), figures in store.figures().items() if scenario.host in hosts
        ]
    if not found:
        raise InputUnreadable("the baseline knows none of these hosts", hint="netdiag baseline show")
    return to_sample(found, _BASELINE)
