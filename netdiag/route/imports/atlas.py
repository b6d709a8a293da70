# SPDX-License-Identifier: Apache-2.0
"""Traceroute results of RIPE Atlas (firmware 4400 and later)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netdiag.errors import InputUnreadable
from netdiag.route.imports import fields
from netdiag.route.model import Kind, Label, Measurement, Probe, Protocol, Target, Trace

__all__ = ["read"]

_ANSWERS = {Protocol.ICMP: Kind.ECHO_REPLY, Protocol.UDP: Kind.PORT_UNREACHABLE, Protocol.TCP: Kind.SYN_ACK}


def read(documents: Sequence[Mapping[str, Any]]) -> Measurement:
    """Return the traceroutes among the results; InputUnreadable where there is none, or says where one is wrong."""
    rows = [row for row in documents if row.get("type", "traceroute") == "traceroute"]
    if not rows:
        raise InputUnreadable("RIPE Atlas: no traceroute among the results")
    traces = [trace for at, row in enumerate(rows) if (trace := _trace(row, f"[{at}]")) is not None]
    if not traces:
        raise InputUnreadable("RIPE Atlas: the traceroutes name no address: the probes could not resolve the target")
    first = rows[0]
    name = first.get("dst_name") or first.get("dst_addr")
    target = Target(host=fields.text(name, "dst_name"), port=traces[0].port or 443, protocol=traces[0].protocol)
    seconds = first.get("timestamp")
    return fields.measurement(
        "RIPE Atlas", target, traces, seconds=float(seconds) if isinstance(seconds, int | float) else None
    )


def _trace(row: Mapping[str, Any], where: str) -> Trace | None:
    if row.get("dst_addr") is None:
        return None
    ip = fields.address(row["dst_addr"], f"{where}.dst_addr")
    way = fields.protocol(row.get("proto"))
    probes = list(_probes(row, ip, way, where))
    reached = any(probe.reply is not None and probe.reply.kind is not Kind.TTL_EXCEEDED for probe in probes)
    paris = row.get("paris_id", 0) != 0
    return fields.trace(ip=ip, port=80, way=way, probes=probes, reached=reached, single_flow=paris)


def _probes(row: Mapping[str, Any], ip: str, way: Protocol, where: str) -> Iterator[Probe]:
    order = 0
    for at, hop in enumerate(fields.listed(row, "result", where)):
        place = f"{where}.result[{at}]"
        if not isinstance(hop, Mapping):
            raise InputUnreadable(f"{place}: expected an object")
        if "hop" not in hop:
            continue  # an error of the probe itself
        ttl = fields.whole(hop["hop"], f"{place}.hop")
        if ttl == 255:
            continue  # a last probe that only asks whether the target answers
        for attempt, packet in enumerate(fields.listed(hop, "result", place)):
            if isinstance(packet, Mapping) and "late" not in packet:
                order += 1
                yield _probe(packet, ttl, attempt, order, ip, way, f"{place}.result[{attempt}]")


def _probe(packet: Mapping[str, Any], ttl: int, attempt: int, order: int, ip: str, way: Protocol, where: str) -> Probe:
    rtt = fields.number(packet.get("rtt"), f"{where}.rtt")
    if packet.get("from") is None or rtt is None:
        return fields.probe(ttl, attempt, order, None)
    sender = fields.address(packet["from"], f"{where}.from")
    kind = _ANSWERS[way] if sender == ip and "err" not in packet else Kind.TTL_EXCEEDED
    if "err" in packet:
        kind = Kind.UNREACHABLE
    if way is Protocol.UDP and sender == ip:
        kind = Kind.PORT_UNREACHABLE  # firmware gives no error word for it
    return fields.probe(ttl, attempt, order, fields.reply(sender, rtt, kind, _labels(packet, where)))


def _labels(packet: Mapping[str, Any], where: str) -> Iterator[Label]:
    extension = packet.get("icmpext")
    if not isinstance(extension, Mapping):
        return
    for block in fields.listed(extension, "obj", f"{where}.icmpext"):
        stack = block.get("mpls") if isinstance(block, Mapping) else None
        for entry in stack if isinstance(stack, list) else ():
            if isinstance(entry, Mapping):
                yield Label(
                    value=fields.whole(entry.get("label", 0), f"{where}.label", (1 << 20) - 1),
                    traffic_class=fields.whole(entry.get("exp", 0), f"{where}.exp", 7),
                    bottom=bool(entry.get("s")),
                    ttl=fields.whole(entry.get("ttl", 0), f"{where}.ttl"),
                )
