# SPDX-License-Identifier: Apache-2.0
"""A route as a ticket for the network that can change it: UTC, addresses, flow, evidence, and what would refute it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netdiag.addresses import endpoint
from netdiag.render import Options
from netdiag.render.markdown import escape
from netdiag.render.route_table import headline, loss, ms, why
from netdiag.units import UNKNOWN

__all__ = ["render"]


def render(document: Mapping[str, Any], options: Options) -> str:  # noqa: ARG001 - the one signature of renderers
    """Return the ticket."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    word, sentence, _ = headline(document)
    target, detour = document["target"], document["detour"]
    yield f"# Route to {escape(target['host'])}: {escape(word.lower())}"
    yield ""
    yield escape(sentence)
    yield ""
    yield f"- time: {document['started'][:19].replace('T', ' ')} UTC"
    here = document["vantage"]
    yield f"- from: {escape(here['ip'] or UNKNOWN)}, AS {here['asn'] or UNKNOWN}, {escape(_place(here))}"
    for one in document["addresses"]:
        yield f"- to: {_address(one, target['port'])}"
    base = document["baseline"]
    if base is not None:
        yield f"- baseline: {ms(base['rtt_ms'])} ms ({escape(base['source'])}, n = {base['n']})"
    yield from _list("Evidence", detour["evidence"])
    yield from _list("What would refute it", detour["refuted_if"])
    yield from _list("What is not known", detour["missing"])
    for path in document["paths"]:
        yield from _path(document, path)
    others = [row for row in document["findings"] if row["code"] != f"route.{detour['class']}"]
    yield from _list("Also found", [f"{row['title']} ({row['code']})" for row in others])
    yield from _list(
        "Unusual packets", [f"{one['ip']}: {text}" for one in document.get("odd", ()) for text in one["says"]]
    )
    data = [
        f"{row['source']}: {row['date'] or 'no date'}, {row['licence'] or 'no licence named'}"
        for row in document["data"]
    ]
    yield from _list("Data", [*data, *(row["attribution"] for row in document["data"] if row["attribution"])])
    asked = [f"{row['purpose']}: {row['address']}, {row['count']} times" for row in document["asked"]]
    yield from _list("Asked", asked)


def _place(here: Mapping[str, Any]) -> str:
    if here["region"] is None:
        return "place unknown"
    return f"{here['city'] or 'near'} {here['region']} ({here['source']})"


def _address(one: Mapping[str, Any], port: int) -> str:
    figures = one["connect_ms"]
    times = f"min {ms(figures['min'])}, median {ms(figures['median'])}, p95 {ms(figures['p95'])} ms"
    parts = [
        endpoint(one["ip"], port) or one["ip"],
        f"served from {one['pop']} ({one['pop_source']})" if one["pop"] else "served from an unknown place",
        f"connect {times}, n = {figures['n']}",
        _tls(one),
        loss(one["loss"]),
    ]
    return escape(", ".join(part for part in parts if part))


def _tls(one: Mapping[str, Any]) -> str:
    tls = one.get("tls_ms")
    return f"TLS min {ms(tls['min'])}, median {ms(tls['median'])} ms, n = {tls['n']}" if tls and tls["n"] else ""


def _list(title: str, items: Sequence[str]) -> Iterator[str]:
    if not items:
        return
    yield ""
    yield f"## {title}"
    yield ""
    yield from (f"- {escape(item)}" for item in items)


def _path(document: Mapping[str, Any], path: Mapping[str, Any]) -> Iterator[str]:
    flow, source = "each probe from a source port of its own", path.get("source") or {}
    if path["method"] == "imported":
        flow = "flows as the tool that stored it made them"
    if path["flow"] == "single":
        flow = f"one flow from {escape(source.get('ip') or UNKNOWN)} port {source.get('port') or UNKNOWN}"
    yield ""
    yield f"## Path to {escape(path['ip'])}"
    yield ""
    yield f"{path['protocol'].upper()} port {document['target']['port']}, {flow}, method {escape(path['method'])}"
    yield ""
    yield "| hop | address | name | AS | place | min ms | answers | why |"
    yield "| ---: | --- | --- | --- | --- | ---: | ---: | --- |"
    for hop in path["hops"]:
        if not hop["responders"]:
            yield f"| {hop['ttl']} | (no answer) | | | | | 0/{hop['probes']} | silent, not loss |"
        for one in hop["responders"]:
            yield _row(hop, one)
    steps = " → ".join(f"{step['asn']} {step['name'] or ''}".strip() for step in path["as_path"])
    if steps:
        yield ""
        yield f"AS path: {escape(steps)}"


def _row(hop: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    place = one["place"]
    known = place is not None and place["refuted_by"] is None and place["confidence"] >= 0.3
    cells = (
        str(hop["ttl"]),
        escape(one["ip"]),
        escape(one["name"] or ""),
        escape(f"AS{one['asn']} {one['as_name'] or ''}" if one["asn"] else one["ixp"] or ""),
        escape(f"{place['city'] or ''} {place['region'] or ''} {place['confidence']:.2f}" if known else ""),
        ms(min(one["rtt_ms"])) if one["rtt_ms"] else UNKNOWN,
        f"{one['answers']}/{one['probes']}",
        escape(why(hop, one)),
    )
    return f"| {' | '.join(cells)} |"
