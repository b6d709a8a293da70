# SPDX-License-Identifier: Apache-2.0
"""A load of model weights: where its time went, how fast it reads and faults, its files, the memory of GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Static

from netdiag.render.weights_table import PARTS, headline, weights_of
from netdiag.text import fit, safe
from netdiag.tui import look
from netdiag.tui.model import Snapshot
from netdiag.tui.screens.page import Page
from netdiag.tui.widgets.facts import Facts
from netdiag.tui.widgets.glyphs import glyphs_of
from netdiag.tui.widgets.table import Column, Line, Table
from netdiag.units import UNKNOWN, format_bytes, format_ms

__all__ = ["WeightsPage"]

_FILES = (
    Column(title="file", width=24, grow=1, least=14),
    Column(title="size", width=8, right=True),
    Column(title="before", width=6, right=True, rank=1),
    Column(title="now", width=6, right=True),
    Column(title="faults", width=9, right=True),
    Column(title="read", width=8, right=True, rank=2),
    Column(title="requests", width=8, right=True, rank=3),
    Column(title="each", width=8, right=True, rank=4),
    Column(title="walk", width=9),
)
_MOST_PARTS = 6
_LEAST_SHARE = 0.005
_LABEL = 12
_SPARK = 60


class WeightsPage(Page):
    """Over the document `netdiag.weights/1`."""

    TITLE_TEXT: ClassVar[str] = "weights"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("esc", "back"),)

    def content(self) -> ComposeResult:
        """Lay out the parts."""
        yield Facts()
        yield Static("", id="curves")
        yield Table(_FILES, empty="no file over 1 MiB was touched", id="rows")

    def show(self, snapshot: Snapshot) -> None:
        """Draw the snapshot."""
        document = snapshot.weights
        curves = self.query_one("#curves", Static)
        if document is None:
            told = "no load of weights is in this recording: `netdiag weights` makes one that has it"
            self.query_one(Facts).tell((("none", told),))
            curves.update("")
            self.query_one("#rows", Table).fill(())
            return
        self.query_one(Facts).tell(list(_facts(document)))
        curves.update(self._curves(document))
        self.query_one("#rows", Table).fill(
            [Line(key=file["path"], cells=_file(file)) for file in weights_of(document)]
        )

    def _curves(self, document: Mapping[str, Any]) -> Text:
        """Return sparklines over the time of the load: faults, reads, and what GPUs hold."""
        width = max(10, min(self.size.width - 40, _SPARK))
        glyphs = glyphs_of(self)
        text = Text(no_wrap=True, end="")
        points = document["curve"]
        for name, member, style in (("page faults", "faults", "yellow"), ("from devices", "device_bytes", "cyan")):
            speeds = _speeds(points, member)
            most = max((one for one in speeds if one is not None), default=None)
            text.append(fit(name, _LABEL), "dim")
            text.append(look.spark(look.folded(speeds, width), width, glyphs), style)
            told = look.rate(most) if member == "faults" else format_bytes(most)
            text.append(f"  {UNKNOWN}\n" if most is None else f"  most {told}/s\n")
        for gpu in document["gpus"]:
            text.append(fit(f"GPU {gpu['index']}", _LABEL), "dim")
            used = [float(one["used_bytes"]) for one in gpu.get("samples") or () if one["used_bytes"] is not None]
            if not used:
                text.append(f"{safe(str(gpu.get('trouble') or 'not looked at'))}\n")
                continue
            text.append(look.spark(look.folded(used, width), width, glyphs), "green")
            text.append(f"  {format_bytes(used[0])} → {format_bytes(used[-1])} (NVML)\n")
        if not document["gpus"]:
            reasons = [row["why"] for row in document["tier"]["missing"] if row["what"] == "GPU"]
            text.append(fit("GPU", _LABEL), "dim")
            text.append(safe(str(reasons[0] if reasons else "not looked at")) + "\n", "dim")
        return text


def _facts(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    yield "load", safe(headline(document).removeprefix("netdiag: "))
    for one in document["findings"][:2]:
        yield one["severity"], f"{safe(one['title'])} · {safe(one['code'])}"
    load = document["load"]
    if load is None:
        yield "time", "no thread that loads was seen"
    else:
        rows = sorted(load["time"], key=lambda row: (row["part"] == "rest", -row["ms"]))
        parts = [row for row in rows if (row["share"] or 0.0) >= _LEAST_SHARE][:_MOST_PARTS]
        told = ", ".join(f"{PARTS.get(row['part'], row['part'])} {look.share(row['share'])}" for row in parts)
        yield "time", f"of {format_ms(load['wall_ms'])}: {told}"
    if document["limit"]:
        yield "limit", safe(document["limit"])
    if document["restart"]:
        yield "restart", safe(document["restart"]["says"])


def _speeds(points: Sequence[Mapping[str, Any]], member: str) -> tuple[float | None, ...]:
    """Return how fast a sum grew between its points, a second; None where one of them does not know it."""
    found: list[float | None] = []
    for one, two in pairwise(points):
        first, second, took = one[member], two[member], (two["at_ms"] - one["at_ms"]) / 1e3
        known = first is not None and second is not None and took > 0
        found.append(max(second - first, 0) / took if known else None)
    return tuple(found)


def _file(file: Mapping[str, Any]) -> tuple[str, ...]:
    def held(member: str) -> str:
        share = file[member] / file["bytes"] if file[member] is not None and file["bytes"] else None
        return look.share(share)

    faults, asked = file["faults"] or {}, (file["requests"] or [None])[0]
    counts = [one for one in (faults.get("asked"), faults.get("around")) if one is not None]
    return (
        safe(file["path"].rsplit("/", 1)[-1]),
        format_bytes(file["bytes"]),
        held("cached_before"),
        held("cached_after"),
        look.count(sum(counts)) if counts else UNKNOWN,
        format_bytes((file["reads"] or {}).get("bytes")),
        look.count(asked["count"]) if asked else UNKNOWN,
        format_bytes(asked["mean_bytes"]) if asked else UNKNOWN,
        safe(file["walk"]["direction"] or UNKNOWN),
    )
