# SPDX-License-Identifier: Apache-2.0
"""Traces of scamper as `sc_warts2json` writes them, one object a line; of `tracelb` only that it cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netdiag.errors import InputUnreadable
from netdiag.route.imports import fields
from netdiag.route.model import Kind, Label, Measurement, Probe, Protocol, Target, Trace

__all__ = ["read"]


def read(documents: Sequence[Mapping[str, Any]]) -> Measurement:
    """Return the traces of a file; InputUnreadable where there is none, or says where one is wrong."""
    rows = [(at, row) for at, row in enumerate(documents, 1) if row.get("type") == "trace"]
    if not rows:
        raise InputUnreadable("scamper: no line of type trace", hint="of load-balancer traces use scamper -c trace")
    traces = [_trace(row, f"line {at}") for at, row in rows]
    first = rows[0][1]
    start = first.get("start")
    seconds = start.get("sec") if isinstance(start, Mapping) else None
    names = _names([row for _, row in rows])
    target = Target(host=traces[0].ip, port=traces[0].port or 443, protocol=traces[0].protocol)
    return fields.measurement(
        "scamper", target, traces, seconds=float(seconds) if isinstance(seconds, int | float) else None, names=names
    )


def _trace(row: Mapping[str, Any], where: str) -> Trace:
    ip = fields.address(row.get("dst"), f"{where}.dst")
    way = fields.protocol(row.get("method"))
    hops = enumerate(fields.listed(row, "hops", where))
    probes = [_probe(hop, order, ip, way, f"{where}.hops[{order}]") for order, hop in hops]
    probes += _silent(probes, row, where)
    port = fields.whole(row.get("dport", 0), f"{where}.dport", 65535) or None
    method = str(row.get("method", "")).lower()
    reached = row.get("stop_reason") == "COMPLETED"
    single = "paris" in method or method.startswith("tcp")
    return fields.trace(ip=ip, port=port, way=way, probes=probes, reached=reached, single_flow=single)


def _probe(hop: object, order: int, ip: str, way: Protocol, where: str) -> Probe:
    if not isinstance(hop, Mapping):
        raise InputUnreadable(f"{where}: expected an object")
    ttl = fields.whole(hop.get("probe_ttl"), f"{where}.probe_ttl")
    attempt = fields.whole(hop.get("probe_id", 0), f"{where}.probe_id", 65535)
    rtt = fields.number(hop.get("rtt"), f"{where}.rtt")
    if rtt is None:
        return fields.probe(ttl, attempt, order, None)
    sender = fields.address(hop.get("addr"), f"{where}.addr")
    kind = _kind(hop, sender, ip, way)
    back = hop.get("reply_ttl")
    ttl_left = back if isinstance(back, int) and 0 < back < 256 else None
    return fields.probe(ttl, attempt, order, fields.reply(sender, rtt, kind, _labels(hop, where), ttl_left))


def _kind(hop: Mapping[str, Any], sender: str, ip: str, way: Protocol) -> Kind:
    if "tcp_flags" in hop:
        return Kind.RST if isinstance(hop["tcp_flags"], int) and hop["tcp_flags"] & 4 else Kind.SYN_ACK
    kind, code = hop.get("icmp_type"), hop.get("icmp_code")
    version6 = ":" in sender
    if (kind, code) == ((1, 4) if version6 else (3, 3)) and sender == ip and way is Protocol.UDP:
        return Kind.PORT_UNREACHABLE
    if kind in ((129,) if version6 else (0,)):
        return Kind.ECHO_REPLY
    return Kind.TTL_EXCEEDED if kind == (3 if version6 else 11) else Kind.UNREACHABLE


def _silent(probes: Sequence[Probe], row: Mapping[str, Any], where: str) -> list[Probe]:
    """Return a probe without an answer for each distance that the file says was asked and lists nothing for."""
    asked = fields.whole(row.get("hop_count", 0), f"{where}.hop_count")
    known = {probe.ttl for probe in probes}
    first = fields.whole(row.get("firsthop", 1), f"{where}.firsthop")
    missing = [ttl for ttl in range(first, asked + 1) if ttl not in known]
    return [fields.probe(ttl, 0, len(probes) + at, None) for at, ttl in enumerate(missing)]


def _labels(hop: Mapping[str, Any], where: str) -> list[Label]:
    blocks = [block for block in fields.listed(hop, "icmpext", where) if isinstance(block, Mapping)]
    entries = [entry for block in blocks for entry in fields.listed(block, "mpls_labels", where)]
    return [
        Label(
            value=fields.whole(entry.get("mpls_label", 0), f"{where}.mpls_label", (1 << 20) - 1),
            traffic_class=fields.whole(entry.get("mpls_exp", 0), f"{where}.mpls_exp", 7),
            bottom=bool(entry.get("mpls_s")),
            ttl=fields.whole(entry.get("mpls_ttl", 0), f"{where}.mpls_ttl"),
        )
        for entry in entries
        if isinstance(entry, Mapping)
    ]


def _names(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    named = {}
    for row in rows:
        for hop in row.get("hops", []):
            if isinstance(hop, Mapping) and isinstance(hop.get("name"), str) and isinstance(hop.get("addr"), str):
                named[hop["addr"]] = hop["name"][:255]
    return named
