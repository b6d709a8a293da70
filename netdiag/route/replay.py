# SPDX-License-Identifier: Apache-2.0
"""Stored probes of any of four tools as a measurement: netdiag's own JSON, RIPE Atlas, scamper, `mtr -j`.

Files are foreign text: what is no number, no address or too long is refused with its place, never guessed.
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netdiag.errors import InputUnreadable
from netdiag.route import knowledge as known
from netdiag.route import store
from netdiag.route.imports import atlas, mtr, scamper
from netdiag.route.knowledge import Knowledge
from netdiag.route.model import Measurement
from netdiag.route.persistence import Check
from netdiag.route.survey import Inputs

__all__ = ["Stored", "read"]

_MOST_BYTES = 256 << 20
_MOST_MS = 3_600_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a file holds."""

    measurement: Measurement
    knowledge: Knowledge | None
    """None: the file has none; tables are to be asked."""
    inputs: Inputs


def read(data: bytes) -> Stored:
    """Return what a file holds; InputUnreadable says what it is not and where reading ended."""
    if len(data) > _MOST_BYTES:
        raise InputUnreadable(f"{len(data)} bytes: too long for stored probes")
    documents = _parse(data)
    first = documents[0]
    if isinstance(first, list):
        documents, first = first, first[0] if first else {}
    if not isinstance(first, Mapping):
        raise InputUnreadable("not a JSON object")
    schema = first.get("schema")
    if isinstance(schema, str) and schema.startswith("netdiag.route/"):
        return _own(first)
    if isinstance(schema, str):
        return Stored(measurement=_checked(store.from_json(first)), knowledge=None, inputs=Inputs())
    return Stored(measurement=_checked(_foreign(first, documents)), knowledge=None, inputs=Inputs())


def _parse(data: bytes) -> list[Any]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputUnreadable(f"not UTF-8 at byte {error.start}") from error
    try:
        return [json.loads(text)]
    except json.JSONDecodeError as whole:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise InputUnreadable(f"not JSON: {whole.msg} at byte {len(text[: whole.pos].encode())}") from whole
        return [_line(line, number) for number, line in enumerate(lines, 1)]
    except RecursionError as error:
        raise InputUnreadable("not JSON of ours: nested too deep") from error


def _line(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputUnreadable(f"not JSON in line {number}") from error


def _checked(measurement: Measurement) -> Measurement:
    """Return a measurement whose addresses, distances and times are possible; InputUnreadable names what is not."""
    for at, trace in enumerate(measurement.traces):
        _address(trace.ip, f"traces[{at}].ip")
        for number, probe in enumerate(trace.probes):
            where = f"traces[{at}].probes[{number}]"
            _range(probe.ttl, 0, 255, f"{where}.ttl")
            if probe.reply is not None:
                _address(probe.reply.ip, f"{where}.reply.ip")
                _range(probe.reply.rtt_ms, 0, _MOST_MS, f"{where}.reply.rtt_ms")
    for at, connect in enumerate(measurement.connects):
        _address(connect.ip, f"connects[{at}].ip")
        for number, attempt in enumerate(connect.attempts):
            _range(attempt.connect_ms or 0, 0, _MOST_MS, f"connects[{at}].attempts[{number}].connect_ms")
    points = [(measurement.vantage.latitude, measurement.vantage.longitude)]
    points += [(mark.latitude, mark.longitude) for mark in measurement.landmarks]
    for latitude, longitude in points:
        _range(latitude or 0, -90, 90, "latitude")
        _range(longitude or 0, -180, 180, "longitude")
    return measurement


def _address(text: str, where: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError as error:
        raise InputUnreadable(f"{where}: expected an IP address") from error


def _range(value: float, low: float, high: float, where: str) -> None:
    if not low <= value <= high:
        raise InputUnreadable(f"{where}: {value} is not from {low} to {high}")


def _own(document: Mapping[str, Any]) -> Stored:
    if document["schema"] != "netdiag.route/1":
        raise InputUnreadable(f"schema: {str(document['schema'])[:40]} is newer than netdiag.route/1")
    inputs = document.get("inputs", {})
    if not isinstance(inputs, Mapping):
        raise InputUnreadable("inputs: expected an object")
    return Stored(
        measurement=_checked(store.from_json(document.get("probes"))),
        knowledge=known.from_json(document.get("knowledge")),
        inputs=_inputs(inputs),
    )


def _inputs(document: Mapping[str, Any]) -> Inputs:
    earlier = document.get("earlier", [])
    loads = document.get("loads", {})
    if not isinstance(earlier, list) or not isinstance(loads, Mapping):
        raise InputUnreadable("inputs: expected a list called earlier and an object called loads")
    if not all(_is_number(load) for load in loads.values()):
        raise InputUnreadable("inputs.loads: expected numbers")
    baseline = document.get("baseline_ms")
    if baseline is not None and not (_is_number(baseline) and baseline > 0):
        raise InputUnreadable("inputs.baseline_ms: expected a number above 0")
    return Inputs(
        baseline_ms=None if baseline is None else float(baseline),
        earlier=tuple(store.restore(Check, item, f"inputs.earlier[{at}]") for at, item in enumerate(earlier)),
        loads={str(key): float(load) for key, load in loads.items()},
        by_load=document.get("by_load") is True,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _foreign(first: Mapping[str, Any], documents: list[Any]) -> Measurement:
    if "msm_id" in first or "prb_id" in first or ("result" in first and "dst_addr" in first):
        return atlas.read([document for document in documents if isinstance(document, Mapping)])
    if isinstance(first.get("report"), Mapping):
        return mtr.read(first)
    if first.get("type") in ("trace", "cycle-start", "tracelb"):
        return scamper.read([document for document in documents if isinstance(document, Mapping)])
    raise InputUnreadable(
        "no stored probes: neither netdiag's JSON nor RIPE Atlas, scamper (sc_warts2json) or mtr -j",
        hint="netdiag route-check HOST --format json -o FILE writes what --replay reads",
    )
