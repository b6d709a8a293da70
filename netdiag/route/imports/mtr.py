# SPDX-License-Identifier: Apache-2.0
"""Reports of `mtr -j`: per hop a name or address, counts, best and worst; single probes are not in the file.

Each hop becomes as many answers as it gave: one with its best time, one with its worst, the rest so that the average is
true. Shortest, longest, mean and how many are those of the file; a median is not in it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from netdiag.errors import InputUnreadable
from netdiag.route.imports import fields
from netdiag.route.model import Kind, Measurement, Probe, Protocol, Target

__all__ = ["read"]

_BOTH = re.compile(r"(\S{1,255}) \(([0-9A-Fa-f.:]{2,45})\)")
_ANSWERS = {Protocol.ICMP: Kind.ECHO_REPLY, Protocol.UDP: Kind.PORT_UNREACHABLE, Protocol.TCP: Kind.SYN_ACK}
_MOST_CYCLES = 1000


def read(document: Mapping[str, Any]) -> Measurement:
    """Return the report as probes; InputUnreadable says what is missing."""
    report = document["report"]
    about = report.get("mtr", {})
    if not isinstance(about, Mapping):
        raise InputUnreadable("report.mtr: expected an object")
    hubs = fields.listed(report, "hubs", "report")
    if not hubs:
        raise InputUnreadable("report.hubs: the report holds no hop")
    way = fields.protocol(about.get("protocol", "icmp"))
    host = fields.text(about.get("dst"), "report.mtr.dst").strip()
    names: dict[str, str] = {}
    rows = [(_row(hub, f"report.hubs[{at}]", names)) for at, hub in enumerate(hubs)]
    last = rows[-1][1]
    if last is None:
        raise InputUnreadable("report.hubs: the last hop did not answer: which address was asked is not in the file")
    reached = _is_target(host, last, names)
    ip = _literal(host) or last
    probes = list(_probes(rows, ip, way, reached=reached))
    port = about.get("port")
    trace = fields.trace(
        ip=ip,
        port=port if isinstance(port, int) and 0 < port < 65536 else 443,
        way=way,
        probes=probes,
        reached=reached,
        single_flow=False,
        notes=("mtr keeps best, average and worst of a hop, not each probe: no median is known",),
    )
    target = Target(host=host, port=trace.port or 443, protocol=way)
    return fields.measurement("mtr", target, [trace], names=names)


def _literal(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _is_target(host: str, last: str, names: Mapping[str, str]) -> bool:
    literal = _literal(host)
    return last == literal if literal is not None else last not in names or names[last].rstrip(".") == host.rstrip(".")


def _row(hub: object, where: str, names: dict[str, str]) -> tuple[Mapping[str, Any], str | None, int]:
    if not isinstance(hub, Mapping):
        raise InputUnreadable(f"{where}: expected an object")
    ttl = fields.whole(hub.get("count"), f"{where}.count")
    host = fields.text(hub.get("host"), f"{where}.host")
    if host == "???":
        return hub, None, ttl
    match = _BOTH.fullmatch(host)
    ip = _literal(match[2] if match else host)
    if ip is None:
        raise InputUnreadable(
            f"{where}.host: a name without its address", hint="write the file with mtr -j -b, or -n for addresses"
        )
    if match:
        names[ip] = match[1]
    return hub, ip, ttl


def _probes(
    rows: list[tuple[Mapping[str, Any], str | None, int]], target: str, way: Protocol, *, reached: bool
) -> Iterator[Probe]:
    order = 0
    for at, (hub, ip, ttl) in enumerate(rows):
        where = f"report.hubs[{at}]"
        sent = min(_MOST_CYCLES, fields.whole(hub.get("Snt", 1), f"{where}.Snt", 1_000_000))
        lost = fields.number(hub.get("Loss%", 0.0), f"{where}.Loss%") or 0.0
        answered = 0 if ip is None else max(0, round(sent * (1 - min(100.0, lost) / 100)))
        kind = _ANSWERS[way] if reached and ip == target and at == len(rows) - 1 else Kind.TTL_EXCEEDED
        times = _times(hub, answered, where)
        for attempt in range(sent):
            order += 1
            answer = fields.reply(ip, times[attempt], kind) if ip is not None and attempt < len(times) else None
            yield fields.probe(ttl, attempt, order, answer)


def _times(hub: Mapping[str, Any], answered: int, where: str) -> list[float]:
    best, average, worst = (fields.number(hub.get(name), f"{where}.{name}") for name in ("Best", "Avg", "Wrst"))
    if best is None or not answered:
        return []
    if answered == 1 or average is None or worst is None:
        return [best] * answered
    rest = answered - 2
    middle = min(worst, max(best, (average * answered - best - worst) / rest)) if rest else 0.0
    return [best, *[middle] * rest, worst]
