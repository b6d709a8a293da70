# SPDX-License-Identifier: Apache-2.0
"""A route as a person reads it in a terminal: the verdict first, then the rule, the doubt, the hops, the places."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netdiag.addresses import endpoint
from netdiag.render import Options
from netdiag.render.layout import Paper, wrap
from netdiag.render.route_map import draw
from netdiag.text import cells, cut, fit, safe
from netdiag.units import UNKNOWN, format_percent

__all__ = ["headline", "loss", "ms", "render", "why"]

_VERDICTS = {
    "none": ("NO DETOUR", "good"),
    "suspect": ("DETOUR SUSPECTED", "warning"),
    "confirmed": ("DETOUR CONFIRMED", "critical"),
    "unknown": ("UNKNOWN", "info"),
}
_AS_CELLS, _PLACE_CELLS, _MS_CELLS, _HOP_CELLS = 17, 15, 6, 4
_LEAST_ADDRESS, _MOST_ADDRESS = 13, 22
_CARRIER = ipaddress.ip_network("100.64.0.0/10")
_PLAIN_REASONS = ("lowest score", "within the limits", "nothing measured")
_IGNORED = {
    "duplicates": "answered again",
    "mismatched": "quoting what was never sent",
    "malformed": "damaged",
    "late": "too late",
}
"""Answers without effect, by the member of `ignored` that counts them."""
_COUNTS = 0.6
"""Verdicts rest on a place from this confidence on."""
_ACTIONS = {"enable-neighbour": "enable neighbour"}


def render(document: Mapping[str, Any], options: Options) -> str:
    """Return the report, at most `options.width` columns wide."""
    paper = Paper(width=options.width, color=options.color)
    _verdict(paper, document)
    _troubles(paper, document)
    paths = document["paths"]
    common = _common_notes(paths)
    for path in paths:
        _path(paper, document, path, common, verbose=options.verbose)
    for text in common:
        paper.labelled("note", safe(text))
    _pops(paper, document)
    _others(paper, document)
    if options.verbose or document["detour"]["verdict"] in ("suspect", "confirmed"):
        for line in draw(document, options.width):
            paper.line(line)
    _data(paper, document)
    _next(paper, document, options.recording)
    return paper.text()


# --- verdict ------------------------------------------------------------------------------------------------------


def headline(document: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the verdict in capitals, its sentence and the style that its colour means."""
    detour = document["detour"]
    word, style = _VERDICTS.get(detour["verdict"], ("UNKNOWN", "info"))
    if detour["class"] == "long-haul":
        word = "NO DETOUR"
    parts = [safe(detour["says"].removeprefix("no detour: "))]
    if detour["verdict"] in ("suspect", "confirmed") and detour["extra_ms"] is not None:
        parts = [f"{safe(detour['says'])}: +{detour['extra_ms']:.1f} ms a round trip"]
    if detour["confidence"] is not None:
        parts.append(f"{detour['confidence']:.2f}")
    return word, " · ".join(parts), style


def _verdict(paper: Paper, document: Mapping[str, Any]) -> None:
    detour = document["detour"]
    word, sentence, style = headline(document)
    head = f"{word}  "
    for row, text in enumerate(wrap(sentence, paper.width - len(head))):
        paper.line(f"{' ' * len(head) if row else head}{text}", style)
    if means := _means(document):
        paper.labelled("means", means, indent=2)
    evidence = [safe(text) for text in detour["evidence"]]
    if evidence:
        paper.labelled("rule", "; ".join(evidence), indent=2)
    doubts = list(_doubts(detour))
    if doubts:
        paper.labelled("doubt", "; ".join(doubts), indent=2)
    if detour["missing"]:
        paper.labelled("lacks", "; ".join(safe(text) for text in detour["missing"]), indent=2)


def _means(document: Mapping[str, Any]) -> str:
    detour, means = document["detour"], document["means"]
    parts = []
    extra = detour["extra_ms"]
    if extra is not None and extra > 0 and detour["class"] != "long-haul":
        parts.append(f"kept connection +{extra:.0f} ms per call, new one (TCP + TLS 1.3) +{3 * extra:.0f} ms")
    if means["kept_connection_ms"] is not None:
        trip = means["kept_connection_ms"]
        text = f"the route explains {trip:.0f} ms of a call's time to first byte, {3 * trip:.0f} ms on a new connection"
        if means["answer_ms"] is not None:
            text += f" (an empty answer took {means['answer_ms']:.0f} ms)"
        parts.append(text)
    return "; ".join(parts)


def _doubts(detour: Mapping[str, Any]) -> Iterator[str]:
    if detour["verdict"] == "suspect":
        yield "seen once: confirmed after 3 of 5 checks in 10 min (add --watch)"
    for text in detour["refuted_if"]:
        yield f"refuted by {safe(text)}"


# --- paths --------------------------------------------------------------------------------------------------------


def _common_notes(paths: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the notes that each of several paths has: they are printed once."""
    if len(paths) < 2:
        return []
    return [text for text in paths[0]["notes"] if all(text in path["notes"] for path in paths)]


def _path(
    paper: Paper, document: Mapping[str, Any], path: Mapping[str, Any], common: Sequence[str], *, verbose: bool
) -> None:
    _heading(paper, document, path)
    if path["hops"]:
        _grid(paper, path, verbose=verbose)
    if not path["reached"]:
        paper.labelled("end", f"the target did not answer ({path['ended']})", indent=1)
    steps = " → ".join(f"{step['asn']}{'' if step['certain'] else '?'}" for step in path["as_path"])
    if steps:
        paper.labelled("AS path", f"{steps} (borders ±1 hop; {_flow(path)})")
    for label, text in _said(document, path):
        if text not in common:
            paper.labelled(label, safe(text))


def _heading(paper: Paper, document: Mapping[str, Any], path: Mapping[str, Any]) -> None:
    address = next((one for one in document["addresses"] if one["ip"] == path["ip"]), None)
    figures = address["connect_ms"] if address else path["rtt_ms"] or {}
    parts = [f"target {endpoint(safe(path['ip']), document['target']['port'])}", path["protocol"].upper()]
    if path["method"] == "in-session":
        parts[-1] += " inside an open connection"
    if figures.get("min") is not None:
        parts.append(f"min {ms(figures['min'])}, median {ms(figures['median'])} ms")
    if address and address.get("tls_ms") and address["tls_ms"]["min"] is not None:
        parts[-1] += f", TLS {ms(address['tls_ms']['min'])} ms"
    if address:
        parts.append(loss(address["loss"]) or _outcomes(address))
    heading = ""
    for part in filter(None, parts):
        longer = f"{heading}  {part}" if heading else part
        if cells(longer) > paper.width:
            paper.line(heading, "bold")
            longer = f"       {part}"
        heading = longer
    paper.line(heading, "bold")


def _said(document: Mapping[str, Any], path: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is to be known of a path beside its hops; of the address, at its first path alone."""
    yield from (("note", text) for text in path["notes"])
    if path["method"] != "in-session":
        yield from (("odd", text) for one in document.get("odd", ()) if one["ip"] == path["ip"] for text in one["says"])
    if unheeded := _unheeded(path["ignored"]):
        yield "ignored", unheeded


def _flow(path: Mapping[str, Any]) -> str:
    if path["flow"] == "single":
        return "one flow"
    return "flows as that tool made them" if path["method"] == "imported" else "multi-flow, as without root"


def _unheeded(ignored: Mapping[str, int]) -> str:
    """Return how many packets changed nothing; those of other programs on this machine are left out."""
    return ", ".join(f"{ignored[name]} {words}" for name, words in _IGNORED.items() if ignored.get(name))


def _outcomes(address: Mapping[str, Any]) -> str:
    """Return how connections ended where none counts for loss: a router refused them, or nothing was sent."""
    return ", ".join(f"{count} connections {outcome}" for outcome, count in address["outcomes"].items())


def _grid(paper: Paper, path: Mapping[str, Any], *, verbose: bool) -> None:
    longest = max((cells(one["ip"]) for hop in path["hops"] for one in hop["responders"]), default=0)
    width = min(max(longest, _LEAST_ADDRESS), _MOST_ADDRESS)
    networks = max(8, _AS_CELLS + _LEAST_ADDRESS + 2 - width)
    widths = (width, min(networks, _AS_CELLS))
    why_cells = paper.width - (_HOP_CELLS + sum(widths) + _PLACE_CELLS + _MS_CELLS + 6)
    head = ("hop", "address", "AS", "place", "ms", "why we believe it")
    paper.line(_row(head, widths), "dim")
    for hop in path["hops"]:
        shown = hop["responders"] if verbose else hop["responders"][:3]
        for at, one in enumerate(shown):
            reasons = list(wrap(why(hop, one), max(10, why_cells))) or [""]
            number = str(hop["ttl"]) if at == 0 else ""
            shortest = ms(min(one["rtt_ms"])) if one["rtt_ms"] else UNKNOWN
            paper.line(_row((number, _ip(one["ip"], width), _as(one), _place(one), shortest, reasons[0]), widths))
            for text in reasons[1:]:
                paper.line(_row(("", "", "", "", "", text), widths))
        if len(hop["responders"]) > len(shown):
            paper.line(_row(("", f"and {len(hop['responders']) - len(shown)} more", "", "", "", ""), widths))
        if not shown:
            paper.line(_row((str(hop["ttl"]), "(no answer)", "", "", "", "silent, not loss"), widths))


def _ip(ip: str, width: int) -> str:
    """Return an address in its column: of a long one both ends."""
    ip = safe(ip)
    return ip if len(ip) <= width else f"{ip[: width // 2]}…{ip[len(ip) - (width - width // 2 - 1) :]}"


def _row(texts: Sequence[str], widths: tuple[int, int]) -> str:
    hop, address, network, place, time, reason = texts
    return "".join(
        (
            fit(hop, _HOP_CELLS, right=True),
            "  ",
            fit(address, widths[0]),
            " ",
            fit(network, widths[1]),
            " ",
            fit(place, _PLACE_CELLS),
            fit(time, _MS_CELLS, right=True),
            "  ",
            reason,
        )
    )


def _as(one: Mapping[str, Any]) -> str:
    if one["ixp"]:
        return f"IX {safe(one['ixp'])}"
    if one["asn"] is None:
        return "private" if _is_private(one["ip"]) else "unknown"
    return f"AS{one['asn']} {safe(one['as_name'] or '')}"


def _is_private(ip: str) -> bool:
    address = ipaddress.ip_address(ip)
    return address.is_private or (address.version == 4 and address in _CARRIER)


def _place(one: Mapping[str, Any]) -> str:
    place = one["place"]
    if place is None or place["refuted_by"] is not None or place["confidence"] < 0.3:
        return "unknown" if place is not None else ""
    region = f" {place['region']}" if place["region"] else ""
    city = cut(safe(place["city"] or "?"), _PLACE_CELLS - len(region))
    return f"{city}{region}"


def why(hop: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    """Return why a place is believed, or what else is to be known of a hop."""
    parts = [safe(note) for note in (one["place"] or {}).get("notes", ())]
    if one["mpls"]:
        labels = ".".join(str(label["value"]) for label in one["mpls"])
        parts.append(f"MPLS {labels}{', ms of its end' if hop['tunnel'] else ''}")
    if hop["balance"] and len(hop["responders"]) > 1 and one is hop["responders"][0]:
        parts.append({"flow": "balanced by flow", "packet": "balanced by packet"}.get(hop["balance"], hop["balance"]))
    if one.get("via"):
        parts.append(f"answered {safe(one['via']).upper()} only")
    if hop["limited"]:
        parts.append(f"answered {one['answers']}/{one['probes']}: limited")
    return ", ".join(parts)


# --- the rest -----------------------------------------------------------------------------------------------------


def ms(value: float | None) -> str:
    """Return milliseconds with one digit behind the point."""
    return UNKNOWN if value is None else f"{value:.1f}"


def loss(row: Mapping[str, Any]) -> str:
    """Return losses with their bound; nothing where nothing was sent."""
    if not row["sent"]:
        return ""
    bound = f">{format_percent(row['low'])}" if row["low"] > 0.03 else f"<{format_percent(row['high'])}"
    return f"lost {row['lost']}/{row['sent']} (95 %: {bound})"


def _pops(paper: Paper, document: Mapping[str, Any]) -> None:
    rows = document["pops"]
    if not rows:
        return
    width = min(max(_LEAST_ADDRESS, *(len(row["ip"]) for row in rows)), 26)
    places = {one["ip"]: one for one in document["addresses"]}
    head = f" {fit('POP', 6)} {fit('address', width)} {fit('median', 8, right=True)} {fit('over base', 10, right=True)}"
    paper.line(f"{head}  {fit('lost', 6)} {fit('load', 8)} action", "dim")
    for row in rows:
        lost = places[row["ip"]]["loss"]
        losses = f"{lost['lost']}/{lost['sent']}" if lost["sent"] else UNKNOWN
        load = "unknown" if row["load_pct"] is None else f"{row['load_pct']:.0f} %"
        action = _ACTIONS.get(row["action"], row["action"])
        left = f" {fit(_pop(row, places[row['ip']]), 6)} {fit(_ip(row['ip'], width), width)}"
        figures = f"{fit(ms(row['rtt_ms']), 8, right=True)} {fit(ms(row['deviation_ms']), 10, right=True)}"
        paper.line(f"{left} {figures}  {fit(losses, 6)} {fit(load, 8)} {action}")
        if row["action"] not in ("prefer", "keep") or row["why"] not in _PLAIN_REASONS:
            paper.labelled("why", f"{safe(row['why'])}{_until(row)}", indent=1)


def _pop(row: Mapping[str, Any], address: Mapping[str, Any]) -> str:
    """Return the point of presence; with a question mark where too little is known of it for verdicts."""
    place = address["place"]
    weak = place is not None and (place["refuted_by"] is not None or place["confidence"] < _COUNTS)
    return f"{safe(row['pop'])}{'?' if weak else ''}" if row["pop"] else UNKNOWN


def _until(row: Mapping[str, Any]) -> str:
    return "" if row["until"] is None else f", until {row['until'][11:19]} UTC"


def _apart(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the findings that are not the verdict itself."""
    kind = document["detour"]["class"]
    yield from (finding for finding in document["findings"] if finding["code"] != f"route.{kind}")


def _troubles(paper: Paper, document: Mapping[str, Any]) -> None:
    """Print what is wrong beside the verdict, below it: it may be worse than a detour."""
    for finding in _apart(document):
        if finding["severity"] == "info":
            continue
        head = f"{finding['severity'].upper()}  "
        for row, text in enumerate(wrap(safe(finding["title"]), paper.width - len(head))):
            paper.line(f"{' ' * len(head) if row else head}{text}", finding["severity"])
        paper.labelled("what", f"{finding['code']} · {finding['confidence']:.2f}", indent=2)
        notes = [safe(row["note"]) for row in finding["evidence"] if row["note"]]
        if notes:
            paper.labelled("proof", "; ".join(notes), indent=2)
        for advice in finding["advice"][:1]:
            paper.labelled("fix", safe(advice["text"]), indent=2)


def _others(paper: Paper, document: Mapping[str, Any]) -> None:
    for finding in _apart(document):
        if finding["severity"] == "info":
            text = f"{safe(finding['title'])} · {finding['code']} · {finding['confidence']:.2f}"
            paper.labelled("also", text, style="info")


def _data(paper: Paper, document: Mapping[str, Any]) -> None:
    dated = [row for row in document["data"] if row["date"]]
    tables = [f"{safe(row['source'])} {row['date']}{' ' + row['licence'] if row['licence'] else ''}" for row in dated]
    asked: dict[str, list[str]] = {}
    for row in document["asked"]:
        asked.setdefault(row["purpose"], []).append(row["address"])
    who = [f"{purpose} {', '.join(dict.fromkeys(ips))}" for purpose, ips in asked.items()]
    paper.listed("data", [*tables, *dict.fromkeys(safe(row["attribution"]) for row in dated if row["attribution"])])
    paper.listed("asked", who or ["nobody: stored probes"])


def _next(paper: Paper, document: Mapping[str, Any], stored: str | None) -> None:
    live = bool(document["asked"])
    parts = [*(["--watch"] if live else []), "--format markdown (a ticket)"]
    if live and (document["baseline"] is None or document["baseline"]["source"] == "synthetic"):
        parts.append("--landmarks cloud")
    if stored:
        parts.append(f"--replay {stored}")
    paper.listed("next", parts)
