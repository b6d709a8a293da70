# SPDX-License-Identifier: Apache-2.0
"""Two stored checks side by side: two directions of a way, two vantages, or before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from netdiag.render import Options
from netdiag.render.layout import Paper, wrap
from netdiag.render.route_table import headline, ms
from netdiag.text import fit, safe
from netdiag.units import UNKNOWN

__all__ = ["render"]


def render(documents: Sequence[tuple[str, Mapping[str, Any]]], options: Options) -> str:
    """Return both checks in two columns; each comes with the name of its file."""
    paper = Paper(width=options.width, color=options.color)
    half = (options.width - 3) // 2
    parts = [
        [
            [part for text in _about(name, document) for part in (list(wrap(text, half)) or [""])]
            for name, document in documents
        ],
        [_hops(document) for _, document in documents],
    ]
    height = max(len(column) for column in parts[0])
    columns = [[*about, *[""] * (height - len(about)), *hops] for about, hops in zip(parts[0], parts[1], strict=True)]
    for left, right in zip_longest(*columns, fillvalue=""):
        paper.line(f"{fit(left, half)} │ {right}")
    return paper.text()


def _about(name: str, document: Mapping[str, Any]) -> list[str]:
    word, sentence, _ = headline(document)
    path = document["paths"][0] if document["paths"] else None
    steps = " → ".join(str(step["asn"]) for step in path["as_path"]) if path else UNKNOWN
    address = document["addresses"][0] if document["addresses"] else None
    trip = ms(address["connect_ms"]["min"]) if address else UNKNOWN
    here = document["vantage"]
    return [
        safe(name),
        document["started"][:19].replace("T", " ") + " UTC",
        f"from {safe(here['city'] or here['region'] or 'an unknown place')} to {safe(document['target']['host'])}",
        word,
        sentence,
        f"shortest {trip} ms, baseline {ms((document['baseline'] or {}).get('rtt_ms'))}",
        f"AS {steps}",
        f"regions {' → '.join(path['regions']) if path else UNKNOWN}",
        "",
    ]


def _hops(document: Mapping[str, Any]) -> list[str]:
    lines = []
    for hop in document["paths"][0]["hops"] if document["paths"] else ():
        one = hop["responders"][0] if hop["responders"] else None
        if one is None:
            lines.append(f"{hop['ttl']:>3} (no answer)")
            continue
        place = one["place"]
        known = place is not None and place["refuted_by"] is None and place["confidence"] >= 0.3
        city = safe(place["city"] or "") if known else ""
        lines.append(f"{hop['ttl']:>3} {fit(safe(one['ip']), 15)} {fit(ms(min(one['rtt_ms'])), 6, right=True)} {city}")
    return lines
