# SPDX-License-Identifier: Apache-2.0
"""Members of foreign JSON, checked: what is wrong is said with its place. And the parts that all importers make."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from netdiag.errors import InputUnreadable
from netdiag.route.model import (
    Clock,
    Clocks,
    Ended,
    Flow,
    Kind,
    Label,
    Lookup,
    Matched,
    Measurement,
    Method,
    Probe,
    Protocol,
    Reply,
    Target,
    Trace,
)

__all__ = ["address", "listed", "measurement", "number", "probe", "protocol", "reply", "text", "trace", "whole"]

_MOST_HOPS = 255
_MOST_PROBES = 100_000
_MOST_MS = 3_600_000.0
_MOST_TEXT = 255


def listed(row: Mapping[str, Any], name: str, where: str) -> Sequence[Any]:
    """Return a list, empty where it is missing."""
    value = row.get(name, [])
    if not isinstance(value, list):
        raise InputUnreadable(f"{where}.{name}: expected a list")
    if len(value) > _MOST_PROBES:
        raise InputUnreadable(f"{where}.{name}: {len(value)} entries are too many")
    return value


def number(value: object, where: str) -> float | None:
    """Return a time in milliseconds; None where it is missing; negative and endless ones are refused."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_MS:
        raise InputUnreadable(f"{where}: expected milliseconds")
    return float(value)


def whole(value: object, where: str, most: int = _MOST_HOPS) -> int:
    """Return a whole number from 0 to `most`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InputUnreadable(f"{where}: expected a number from 0 to {most}")
    return value


def text(value: object, where: str) -> str:
    """Return a short text."""
    if not isinstance(value, str) or not 0 < len(value) <= _MOST_TEXT:
        raise InputUnreadable(f"{where}: expected a text of at most {_MOST_TEXT} characters")
    return value


def address(value: object, where: str) -> str:
    """Return an IP address as `ipaddress` writes it, a zone taken off."""
    try:
        return str(ipaddress.ip_address(text(value, where).partition("%")[0]))
    except ValueError as error:
        raise InputUnreadable(f"{where}: expected an IP address") from error


def protocol(value: object) -> Protocol:
    """Return the protocol that a word like `ICMP`, `udp-paris` or `tcp-ack` names; UDP where it names none."""
    word = str(value or "").lower()
    return next((one for one in Protocol if word.startswith(one.value)), Protocol.UDP)


def reply(ip: str, rtt_ms: float, kind: Kind, labels: Iterable[Label] = (), ttl: int | None = None) -> Reply:
    """Return an answer as another tool saw it."""
    clock, matched = Clock.IMPORTED, Matched.IMPORTED
    return Reply(kind=kind, ip=ip, rtt_ms=rtt_ms, clock=clock, matched=matched, labels=tuple(labels), ttl=ttl)


def probe(ttl: int, attempt: int, order: int, answer: Reply | None, flow: int = 0) -> Probe:
    """Return a probe; its instant is only its place in the order."""
    return Probe(flow=flow, ttl=ttl, round=attempt, attempt=0, sent_ns=order, reply=answer)


def trace(
    *,
    ip: str,
    port: int | None,
    way: Protocol,
    probes: Sequence[Probe],
    reached: bool,
    single_flow: bool,
    started_ns: int = 0,
    notes: tuple[str, ...] = (),
) -> Trace:
    """Return the probes to one address."""
    return Trace(
        ip=ip,
        port=None if way is Protocol.ICMP else port,
        protocol=way,
        method=Method.IMPORTED,
        privileged=False,
        started_ns=started_ns,
        duration_ms=0.0,
        flows=(Flow(id=0, port=port),),
        single_flow=single_flow,
        probes=tuple(probes),
        ended=Ended.ANSWERED if reached else Ended.SILENT,
        wait_ms=0.0,
        rounds=1 + max((one.round for one in probes), default=0),
        notes=notes,
    )


def measurement(
    tool: str,
    target: Target,
    traces: Sequence[Trace],
    *,
    seconds: float | None = None,
    names: Mapping[str, str] | None = None,
) -> Measurement:
    """Return a measurement of another tool; without a time of day it is said to be of 1970."""
    realtime_ns = int(seconds * 1e9) if seconds is not None and math.isfinite(seconds) and 0 < seconds < 1e11 else 0
    return Measurement(
        version=tool,
        target=target,
        clocks=Clocks(monotonic_ns=0, realtime_ns=realtime_ns, end_monotonic_ns=0, end_realtime_ns=realtime_ns),
        traces=tuple(traces),
        lookups=tuple(
            Lookup(resolver=tool, name=ip, qtype="PTR", at_ns=0, answers=(name,)) for ip, name in (names or {}).items()
        ),
    )
