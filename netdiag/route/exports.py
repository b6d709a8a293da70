# SPDX-License-Identifier: Apache-2.0
"""The choice of an address for other programs: JSON, Envoy's endpoints, or lines for a hosts file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netdiag.errors import UsageError
from netdiag.values import dumps

__all__ = ["KINDS", "kind_of", "render"]

KINDS = ("json", "envoy", "hosts")
_HEALTH = {"isolate": "UNHEALTHY", "demote": "DEGRADED"}
_SCHEMA = "netdiag.choice/1"
_MEMBERS = ("ip", "pop", "action", "score", "rtt_ms", "until", "why")


def kind_of(path: Path) -> str:
    """Return the format that a file's name means: `hosts*`, `*envoy*`, else JSON."""
    name = path.name.lower()
    return "hosts" if name.startswith("hosts") else "envoy" if "envoy" in name else "json"


def render(document: Mapping[str, Any], kind: str) -> str:
    """Return the choice of a `netdiag.route/1` document, usable addresses first; the whole file."""
    if kind == "json":
        return _json(document)
    if kind == "envoy":
        return _envoy(document)
    if kind == "hosts":
        return _hosts(document)
    raise UsageError(f"--write-format {kind}: there are {', '.join(KINDS)}")


def _ranked(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the points of presence, the preferred first, isolated ones last."""
    order = {"prefer": 0, "keep": 1, "enable-neighbour": 2, "demote": 3, "isolate": 4}

    def place(row: Mapping[str, Any]) -> tuple[int, float]:
        score = row["score"]
        return order[row["action"]], score if score is not None else float("inf")

    return sorted(document["pops"], key=place)


def _json(document: Mapping[str, Any]) -> str:
    target = document["target"]
    rows = [{key: row[key] for key in _MEMBERS} for row in _ranked(document)]
    choice = {
        "schema": _SCHEMA,
        "at": document["started"],
        "host": target["host"],
        "port": target["port"],
        "choice": next((row["ip"] for row in rows if row["action"] != "isolate"), None),
        "addresses": rows,
    }
    return dumps(choice) + "\n"


def _envoy(document: Mapping[str, Any]) -> str:
    """Return a ClusterLoadAssignment (EDS, v3) in a DiscoveryResponse, as Envoy reads it from a watched file."""
    target = document["target"]
    endpoints = [
        {
            "priority": at,
            "lb_endpoints": [
                {
                    "health_status": _HEALTH.get(row["action"], "HEALTHY"),
                    "endpoint": {"address": {"socket_address": {"address": row["ip"], "port_value": target["port"]}}},
                }
            ],
        }
        for at, row in enumerate(_ranked(document))
    ]
    assignment = {
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": target["host"],
        "endpoints": endpoints,
    }
    return dumps({"version_info": document["started"], "resources": [assignment]}) + "\n"


def _hosts(document: Mapping[str, Any]) -> str:
    host = document["target"]["host"].removesuffix(".")
    usable = [row for row in _ranked(document) if row["action"] != "isolate"]
    best: dict[bool, Mapping[str, Any]] = {}
    for row in usable:
        best.setdefault(":" in row["ip"], row)
    lines = [f"# netdiag route-check {document['started']}: remove these lines when they are no longer renewed"]
    lines += [f"{row['ip']} {host}" for row in best.values() if _is_name(host)]
    return "\n".join(lines) + "\n"


def _is_name(host: str) -> bool:
    return all(letter.isalnum() or letter in "-._" for letter in host) and host.isascii() and ":" not in host
