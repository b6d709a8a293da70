# SPDX-License-Identifier: Apache-2.0
"""A load as a person reads it in a terminal: the cause first, then where the time went, the files, the next load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from netdiag.render import Options
from netdiag.render.layout import Paper, wrap
from netdiag.render.words import percent, seconds, span, unit
from netdiag.text import cut_middle, fit, safe
from netdiag.units import UNKNOWN, format_bytes, format_count, format_ms

__all__ = ["PARTS", "headline", "render", "weights_of"]

PARTS = {
    "user": "user code",
    "fault-cpu": "fault, CPU",
    "fault-blocked": "fault, blocked",
    "read-cpu": "read(), CPU",
    "read-blocked": "read(), blocked",
    "populate-cpu": "mmap/madvise, CPU",
    "populate-blocked": "mmap/madvise, blocked",
    "driver-cpu": "driver, CPU",
    "driver-blocked": "driver, blocked",
    "gpu-copies": "copies to the GPU",
    "kernel-cpu": "other calls, CPU",
    "kernel-blocked": "other calls, blocked",
    "waiting-for-processor": "waiting for a CPU",
    "asleep": "asleep",
    "system-cpu": "in the kernel, CPU",
    "blocked": "waiting for a device",
    "cpu": "on a processor",
    "rest": "not explained",
}
_ALWAYS = ("user", "fault-cpu", "fault-blocked", "read-cpu", "read-blocked", "rest")
_LEFT = 40
_BARS = "▁▂▃▄▅▆▇█"
_MOST_FILES = 12


def headline(document: Mapping[str, Any]) -> str:
    """Return who loaded what, in how long, and what was lost."""
    load = document["load"]
    command = document["command"]
    words = [word.rsplit("/", 1)[-1] for word in (command["argv"] if command else []) if "…" not in word]
    name = next((word for word in words[1:] if not word.startswith("-")), words[0] if words else None)
    name = name or (load["comm"] if load else "nothing")
    parts = [safe(name)]
    if load:
        parts.append(seconds(load["wall_ms"]))
    weights = weights_of(document)
    kinds = sorted({file["format"] for file in weights if file["format"]})
    size = sum(file["bytes"] for file in weights)
    parts.append(
        f"{format_bytes(size)} in {len(weights)} {' and '.join(kinds)} {'file' if len(weights) == 1 else 'files'}"
    )
    lost = document["tier"]["lost"]
    if document["tier"]["name"] == "procfs":
        return f"netdiag: {', '.join(parts)} · by looks at /proc".replace("  ", " ")
    losses = "losses unknown" if lost is None else f"{format_count(sum(lost.values()))} events lost"
    return f"netdiag: {', '.join(parts)} · {losses}".replace("  ", " ")


def render(document: Mapping[str, Any], options: Options) -> str:
    """Return the report, at most `options.width` columns wide."""
    paper = Paper(width=options.width, color=options.color)
    paper.line(headline(document))
    loud = [one for one in document["findings"] if options.verbose or one["severity"] != "info"]
    quiet = [one for one in document["findings"] if one not in loud]
    for one in loud:
        _finding(paper, one, document)
    if not loud:
        paper.line("nothing  No cause stands out.")
    for one in document["verified"]:
        took = f"{format_ms(one['before_ms'])} → {format_ms(one['after_ms'])}"
        state = one["state"].replace("-", " ")
        paper.labelled(
            "verified",
            f"{took} for {format_bytes(one['bytes'])} of {safe(one['file'].rsplit('/', 1)[-1])}, {state}: "
            f"{one['before']} → {one['after']} ({one['code']})",
        )
    _table(paper, document)
    _gpus(paper, document)
    if document["phases"]:
        paper.listed("phases", [_phase(one) for one in document["phases"]])
    if document["limit"]:
        paper.labelled("limit", safe(document["limit"]))
    if document["restart"]:
        paper.labelled("restart", safe(document["restart"]["says"]))
    _troubles(paper, document)
    if options.verbose:
        _tensors(paper, document)
    for one in quiet:
        paper.labelled("note", f"{one['code']}: {safe(one['title'])}")
    _cost(paper, document)
    return paper.text()


def _troubles(paper: Paper, document: Mapping[str, Any]) -> None:
    for file in document["files"]:
        if file["trouble"]:
            paper.labelled("note", f"{safe(_name(file))}: {safe(file['trouble'])}", style="warning")
        if file["replaced"]:
            paper.labelled("note", f"{safe(_name(file))} was replaced since it was loaded", style="warning")


def weights_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the files that are, or may be, weights; every file where none is."""
    files = document["files"]
    return [one for one in files if one["format"]] or [one for one in files if one["weights"]] or list(files)


def _finding(paper: Paper, one: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    head = f"{one['severity'].upper()}  "
    for row, text in enumerate(wrap(safe(one["title"]), paper.width - len(head))):
        paper.line(f"{' ' * len(head) if row else head}{text}", one["severity"])
    what = [
        safe(one["code"]) + (f" ({safe(one['cause'])})" if one["cause"] else ""),
        f"confidence {one['confidence']:.2f}",
    ]
    named = [row["id"] for row in one["evidence"] if row["kind"] == "file" and row["id"]]
    what += [_where(name, document) for name in named[:1]]
    paper.listed("what", what, indent=2)
    for row in one["evidence"][:1]:
        paper.labelled("proof", safe(row["note"]), indent=2)
    for advice in one["advice"][:1]:
        paper.labelled("fix", safe(advice["text"]), indent=2)
        if advice["snippet"]:
            paper.verbatim(advice["snippet"])
    if one["what_if"]:
        paper.labelled("then", safe(one["what_if"]), indent=2)


def _where(name: str, document: Mapping[str, Any]) -> str:
    for file in document["files"]:
        if file["path"] == name:
            place = file["filesystem"] or {}
            return f"{safe(place.get('point') or name)} ({safe(place.get('kind') or UNKNOWN)})"
    return safe(name)


def _name(file: Mapping[str, Any]) -> str:
    name: str = file["path"].rsplit("/", 1)[-1]
    return name


def _table(paper: Paper, document: Mapping[str, Any]) -> None:
    left, right = list(_times(document)), list(_files(weights_of(document)))
    for mine, theirs in zip_longest(left, right, fillvalue=""):
        paper.line(f"{fit(mine, _LEFT)}{theirs}")


def _times(document: Mapping[str, Any]) -> Iterator[str]:
    load = document["load"]
    if load is None:
        yield "where time went: not seen"
        return
    wall = load["wall_ms"]
    yield f"{fit(f'where {seconds(wall)} went', 23)}{unit(wall):>6}{'%':>6}"
    rows = sorted(load["time"], key=lambda row: (row["part"] == "rest", -row["ms"]))
    for row in rows:
        if row["part"] in _ALWAYS or (row["share"] or 0) >= 0.005:
            share = "–" if row["share"] is None else f"{100 * row['share']:.1f}"
            # a rest below 0 is shown: parts that were measured apart overlap by so much, and the sum stays right
            yield f"  {fit(PARTS[row['part']], 21)}{span(row['ms'], wall):>6}{share:>6}"


def _files(files: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not files:
        yield "no file over 1 MiB was touched"
        return
    yield f"{fit('files', 16)}{'size':>8} {'memory':>6} walk"
    for file in files[:_MOST_FILES]:
        held = file["cached_after"]
        share = percent(held / file["bytes"] if held is not None and file["bytes"] else None)
        name = cut_middle(safe(_name(file)), 15, tail=6)
        yield f"{fit(name, 16)}{format_bytes(file['bytes']):>8} {share:>6} {file['walk']['direction'] or UNKNOWN}"
    if len(files) > _MOST_FILES:
        yield f"and {len(files) - _MOST_FILES} more"


def _gpus(paper: Paper, document: Mapping[str, Any]) -> None:
    for gpu in document["gpus"]:
        if gpu.get("trouble"):
            paper.labelled(f"GPU {gpu['index']}", safe(str(gpu["trouble"])), style="warning")
        used = [point["used_bytes"] for point in gpu.get("samples", ())]
        if not used:
            continue
        step = max(1, len(used) // 20)
        peak = max(*used, 1)
        curve = "".join(_BARS[min(7, int(8 * value / peak))] for value in used[::step][:24])
        paper.labelled(f"GPU {gpu['index']}", f"{curve}  {format_bytes(used[0])} → {format_bytes(used[-1])}    NVML")


def _phase(one: Mapping[str, Any]) -> str:
    return f"{safe(one['name'])} {seconds(one['ended_ms'] - one['began_ms'])}"


def _tensors(paper: Paper, document: Mapping[str, Any]) -> None:
    for file in document["files"]:
        rows = file["tensors"]
        if not rows:
            continue
        paper.line(f"tensors of {safe(_name(file))}: {len(rows):,}")
        for row in rows[:40]:
            paper.line(f"  {fit(safe(row['name']), 46)}{format_bytes(row['bytes']):>9} {percent(row['resident']):>6}")


def _cost(paper: Paper, document: Mapping[str, Any]) -> None:
    tier = document["tier"]
    share = tier["share_of_wall"]
    cost = "not known" if share is None else f"{percent(share, 1)} of wall"
    looks = tier.get("looks_cpu_ms") if tier["name"] == "light" else None
    beside = "" if looks is None else f" · looks at /proc {format_ms(looks)} of a processor"
    paper.labelled("own cost", f"{tier['name']} tier, {cost}{beside}")
    for one in tier["missing"]:
        paper.labelled(
            "missing", f"{safe(one['what'])}: {safe((one['why'] or UNKNOWN).partition(chr(10))[0])}", style="warning"
        )
