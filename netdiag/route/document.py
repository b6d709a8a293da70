# SPDX-License-Identifier: Apache-2.0
"""A survey as `netdiag.route/1`: what a program reads, and all that the renderers print.

The document also holds what it was made from (`probes`, `knowledge`, `inputs`), so a saved one can be judged again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from netdiag import __version__
from netdiag.findings import Finding
from netdiag.route import knowledge as known
from netdiag.route import oddities, store
from netdiag.route.claims import claims
from netdiag.route.hops import Hop, Responder
from netdiag.route.knowledge import Knowledge
from netdiag.route.places import Located
from netdiag.route.pops import score
from netdiag.route.survey import Address, Survey, View
from netdiag.values import clean, rfc3339, to_ms

__all__ = ["SCHEMA", "build"]

SCHEMA = "netdiag.route/1"


def build(
    survey: Survey, reported: Sequence[Finding] | None = None, ignored: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the document as plain JSON values. `reported`: the findings, where the user accepted some of them."""
    found = claims(survey) if reported is None else reported
    measurement = survey.measurement
    clocks = measurement.clocks
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "started": rfc3339(clocks.realtime_ns),
        "duration_ms": to_ms((clocks.end_monotonic_ns - clocks.monotonic_ns) / 1e6),
        "exit_reason": measurement.ended,
        "target": store.plain(measurement.target) | {"protocol": str(measurement.target.protocol)},
        "vantage": _vantage(survey),
        "asked": [_asked(row) for row in measurement.asked],
        "addresses": [_address(one) for one in survey.addresses],
        "paths": [_path(survey, view) for view in survey.views],
        "baseline": None if survey.baseline is None else asdict(survey.baseline),
        "detour": _detour(survey),
        "means": _means(survey),
        "odd": [asdict(one) | {"says": oddities.sentences(one)} for one in survey.oddities],
        "pops": [_pop(survey, one) for one in survey.addresses],
        "findings": [finding.to_json() for finding in found],
        "ignored": list(ignored),
        "summary": _summary(survey),
        "data": [asdict(source) for source in survey.knowledge.sources],
        "probes": store.to_json(measurement),
        "knowledge": known.to_json(survey.knowledge),
        "inputs": _inputs(survey),
    }
    cleaned: dict[str, Any] = clean(document)
    return cleaned


def _asked(row: Any) -> dict[str, Any]:
    return {"purpose": row.purpose, "address": row.address, "port": row.port, "count": row.count}


def _vantage(survey: Survey) -> dict[str, Any]:
    given, here = survey.measurement.vantage, survey.here
    public = next((ip for view in survey.views for ip in _first_public(view, survey.knowledge)), None)
    return {
        "ip": given.source_ip,
        "interface": given.interface,
        "interface_kind": given.interface_kind,
        "proxy": given.proxy,
        "asn": survey.knowledge.of(public).asn if public else None,
        "region": here.place.region if here else None,
        "city": here.place.city if here else None,
        "latitude": here.place.latitude if here else None,
        "longitude": here.place.longitude if here else None,
        "radius_km": here.radius_km if here else None,
        "source": here.source if here else None,
    }


def _first_public(view: View, knowledge: Knowledge) -> list[str]:
    return [one.ip for _, one in view.path.responders if knowledge.of(one.ip).asn is not None][:1]


def _address(address: Address) -> dict[str, Any]:
    rtt, loss = address.rtt, address.loss
    return {
        "ip": address.ip,
        "resolvers": list(address.resolvers),
        "pop": address.pop,
        "pop_source": address.pop_source,
        "place": _place(address.located),
        "connect_ms": {
            "min": to_ms(rtt.min_ms) if rtt else None,
            "median": to_ms(rtt.median_ms) if rtt else None,
            "p95": to_ms(rtt.p95_ms) if rtt else None,
            "n": rtt.n if rtt else 0,
        },
        "tls_ms": {
            "min": to_ms(address.tls.min_ms) if address.tls else None,
            "median": to_ms(address.tls.median_ms) if address.tls else None,
            "n": address.tls.n if address.tls else 0,
        },
        "loss": asdict(loss),
        "outcomes": dict(address.outcomes),
        "groups": [
            {"pop": one.pop, "median_ms": to_ms(one.figures.median_ms), "count": one.count} for one in address.clusters
        ],
    }


def _place(located: Located | None) -> dict[str, Any] | None:
    if located is None:
        return None
    place = located.place
    return {
        "city": place.city,
        "country": place.country,
        "region": place.region,
        "lat": place.latitude,
        "lon": place.longitude,
        "source": located.source,
        "confidence": located.confidence,
        "refuted_by": located.refuted_by,
        "notes": list(located.notes),
    }


def _path(survey: Survey, view: View) -> dict[str, Any]:
    trace, rtt = view.path.trace, view.rtt
    return {
        "ip": trace.ip,
        "protocol": str(trace.protocol),
        "method": str(trace.method),
        "privileged": trace.privileged,
        "flow": "single" if trace.single_flow else "multi",
        "source": {"ip": trace.flows[0].source_ip, "port": trace.flows[0].source_port} if trace.flows else None,
        "reached": view.path.reached,
        "hops": [_hop(survey, view, hop) for hop in view.path.hops],
        "as_path": [asdict(step) for step in view.steps],
        "regions": list(view.regions),
        "rtt_ms": None
        if rtt is None
        else {"min": to_ms(rtt.min_ms), "median": to_ms(rtt.median_ms), "p95": to_ms(rtt.p95_ms)},
        "floor_ms": to_ms(view.floor_ms),
        "inflation": round(rtt.min_ms / view.floor_ms, 3) if rtt and view.floor_ms else None,
        "ended": str(trace.ended),
        "ignored": asdict(trace.ignored),
        "notes": [*view.path.notes, *view.notes, *trace.notes, *((trace.error,) if trace.error else ())],
    }


def _hop(survey: Survey, view: View, hop: Hop) -> dict[str, Any]:
    return {
        "ttl": hop.ttl,
        "probes": hop.probes,
        "balance": None if hop.balance is None else str(hop.balance),
        "limited": hop.limited,
        "tunnel": hop.tunnel,
        "target": hop.target,
        "responders": [_responder(survey, view, hop, one) for one in hop.responders],
    }


def _responder(survey: Survey, view: View, hop: Hop, one: Responder) -> dict[str, Any]:
    facts = survey.knowledge.of(one.ip)
    return {
        "ip": one.ip,
        "name": survey.names.get(one.ip),
        "asn": facts.asn,
        "as_name": facts.as_name,
        "ixp": facts.exchange,
        "place": _place(view.located.get(one.ip)),
        "rtt_ms": [to_ms(ms) for ms in one.rtt_ms],
        "mpls": [asdict(label) for label in one.labels],
        "probes": hop.probes,
        "answers": one.answers,
        "via": one.via,
    }


def _detour(survey: Survey) -> dict[str, Any]:
    detour = asdict(survey.detour)
    shown = {("class" if key == "kind" else key): value for key, value in detour.items()}
    for key in ("rtt_ratio", "extra_ms", "extra_km"):
        shown[key] = to_ms(shown[key])
    return shown


def _means(survey: Survey) -> dict[str, Any]:
    """Return what the way costs a call, and how much of the wait for an answer's first byte it can explain.

    Round trips to a proxy tell nothing of either.
    """
    rtt = survey.addresses[0].rtt if survey.addresses and not survey.proxied else None
    waits = [
        attempt.http.wait_ms
        for connect in survey.measurement.connects
        for attempt in connect.attempts
        if connect.landmark is None and attempt.http is not None and survey.addresses[0].ip == connect.ip
    ]
    wait = min(waits, default=None)
    trip = rtt.min_ms if rtt else None
    return {
        "kept_connection_ms": to_ms(trip),
        "new_connection_ms": to_ms(3 * trip) if trip is not None else None,
        "answer_ms": to_ms(wait),
        "share_of_answer": round(min(1.0, trip / wait), 3) if trip is not None and wait else None,
    }


def _pop(survey: Survey, address: Address) -> dict[str, Any]:
    window, decision = survey.windows[address.ip], survey.decisions[address.ip]
    clocks = survey.measurement.clocks
    until = None
    if decision.until_s is not None:
        until = rfc3339(clocks.realtime_ns + round(decision.until_s * 1e9) - clocks.monotonic_ns)
    return {
        "pop": address.pop,
        "ip": address.ip,
        "score": to_ms(score(window, by_load=survey.inputs.by_load)),
        "rtt_ms": to_ms(window.median_ms),
        "deviation_ms": to_ms(window.deviation_ms),
        "loss_pct": round(100 * window.lost / window.sent, 3) if window.sent else None,
        "load_pct": window.load_percent,
        "action": str(decision.action),
        "until": until,
        "why": decision.why,
    }


def _inputs(survey: Survey) -> dict[str, Any]:
    inputs = survey.inputs
    loads: Mapping[str, float] = inputs.loads
    return {
        "baseline_ms": inputs.baseline_ms,
        "earlier": [asdict(check) for check in inputs.earlier],
        "loads": dict(loads),
        "by_load": inputs.by_load,
    }


def _summary(survey: Survey) -> dict[str, Any]:
    """Return what assertions look at: figures of the address that a client of this host takes."""
    first = survey.addresses[0] if survey.addresses else None
    rtt = first.rtt if first else None
    return {
        "addresses": len(survey.addresses),
        "rtt_ms": to_ms(rtt.min_ms) if rtt else None,
        "median_ms": to_ms(rtt.median_ms) if rtt else None,
        "lost": first.loss.lost if first and first.loss.sent else None,
        "extra_ms": to_ms(survey.detour.extra_ms),
        "hops": max((len(view.path.hops) for view in survey.views), default=None),
    }
