# SPDX-License-Identifier: Apache-2.0
"""A survey as findings `route.*`: what to change, how sure that is, and what it costs a round trip."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from netdiag.addresses import endpoint
from netdiag.catalog import catalog
from netdiag.findings import Evidence, Finding, Severity, Subject
from netdiag.route import flips
from netdiag.route.survey import Address, Survey
from netdiag.units import format_ms, format_percent

__all__ = ["claims"]

_LOSS = 0.03
_LEAST_MS = 10.0
_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


def claims(survey: Survey) -> list[Finding]:
    """Return the findings, the most severe first, then by cost."""
    found = [*_detour(survey), *_choice(survey)]
    for address in survey.addresses:
        found += [*_loss(survey, address), *_flip(survey, address), *_black_hole(survey, address)]
    return sorted(found, key=lambda one: (_ORDER.index(one.severity), -(one.cost_ms or 0.0)))


def _make(  # noqa: PLR0913 - the members of a finding
    survey: Survey,
    code: str,
    *,
    severity: Severity,
    confidence: float,
    values: Mapping[str, str],
    ip: str | None,
    count: int = 1,
    of: int = 1,
    cost_ms: float | None = None,
    cause: str | None = None,
    what_if: str | None = None,
    notes: Iterable[str] = (),
) -> Finding:
    entry = catalog()[code]
    target = survey.measurement.target
    shown = {"host": target.host, "count": str(count), "of": str(of), **values}
    return Finding(
        code=code,
        cause=cause,
        severity=severity,
        confidence=round(confidence, 2),
        title=entry.render(entry.title if cost_ms is not None else entry.plain, shown),
        subject=Subject(remote=endpoint(ip, target.port), host=target.host),
        count=count,
        of=of,
        cost_ms=cost_ms,
        share_of_total=None,
        what_if=what_if,
        evidence=tuple(
            Evidence(kind="route", id=ip, note=note) for note in (entry.render(entry.proof_line, shown), *notes)
        ),
        advice=entry.render_advice((), shown),
        explain=entry.means,
    )


def _detour(survey: Survey) -> Iterable[Finding]:
    detour = survey.detour
    if detour.kind is None:
        return
    weak = survey.baseline is None or survey.baseline.source == "synthetic"
    quiet = detour.kind in ("long-haul", "contradictory") or (detour.kind == "inflated" and weak)
    extra = detour.extra_ms if detour.kind != "long-haul" else None
    values = {"says": detour.says, "extra": format_ms(extra), "rule": detour.evidence[0] if detour.evidence else ""}
    then = None
    if extra is not None and not quiet:
        then = f"up to {format_ms(extra)} less per call on a kept connection, {format_ms(3 * extra)} on a new one"
    yield _make(
        survey,
        f"route.{detour.kind}",
        severity=Severity.INFO if quiet else Severity.WARNING,
        confidence=detour.confidence if detour.confidence is not None else 0.3,
        values=values,
        ip=survey.addresses[0].ip if survey.addresses else None,
        cost_ms=extra,
        what_if=then,
        notes=(*detour.evidence[1:], *(f"refuted by {text}" for text in detour.refuted_if)),
    )


def _loss(survey: Survey, address: Address) -> Iterable[Finding]:
    loss = address.loss
    if loss.low is None or loss.low <= _LOSS:
        return
    dead = loss.lost == loss.sent
    values = {"lost": str(loss.lost), "sent": str(loss.sent), "low": format_percent(loss.low), "host": address.ip}
    yield _make(
        survey,
        "route.loss",
        severity=Severity.CRITICAL if dead else Severity.WARNING,
        confidence=0.95,
        values=values,
        ip=address.ip,
        count=loss.lost,
        of=loss.sent,
        cost_ms=None if dead else 1000.0 * loss.lost / loss.sent,
        cause="unreachable" if dead else None,
    )


def _flip(survey: Survey, address: Address) -> Iterable[Finding]:
    found = address.clusters
    gain = flips.redial_gain_ms(found)
    if gain is None:
        return
    total = sum(one.count for one in found)
    groups = ", ".join(
        f"{one.count} × {format_ms(one.figures.median_ms)}{f' ({one.pop})' if one.pop else ''}" for one in found
    )
    named = all(one.pop for one in found)
    yield _make(
        survey,
        "route.site-flip",
        severity=Severity.WARNING if gain > _LEAST_MS else Severity.INFO,
        confidence=0.9 if named else 0.7,
        values={"extra": format_ms(gain), "groups": groups, "host": address.ip},
        ip=address.ip,
        count=total - found[0].count,
        of=total,
        cost_ms=gain * (total - found[0].count) / total,
        what_if=f"dialling again until the connect time is near {format_ms(found[0].figures.median_ms)}",
    )


def _choice(survey: Survey) -> Iterable[Finding]:
    measured = [one for one in survey.addresses if one.rtt is not None]
    if len(measured) < 2 or survey.addresses[0].rtt is None:
        return
    used = survey.addresses[0]
    best = min(measured, key=lambda one: one.rtt.median_ms if one.rtt else math.inf)
    assert used.rtt is not None  # noqa: S101 - looked at above
    assert best.rtt is not None  # noqa: S101
    gain = used.rtt.median_ms - best.rtt.median_ms
    scatter = max(one.rtt.median_ms - one.rtt.min_ms for one in (used, best) if one.rtt)
    if gain <= max(_LEAST_MS, 3 * scatter) or min(used.rtt.n, best.rtt.n) < 5:
        return
    yield _make(
        survey,
        "route.address-choice",
        severity=Severity.WARNING,
        confidence=0.9,
        values={
            "host": used.ip,
            "better": best.ip,
            "extra": format_ms(gain),
            "rtt": format_ms(used.rtt.median_ms),
            "best": format_ms(best.rtt.median_ms),
        },
        ip=used.ip,
        cost_ms=gain,
        cause="family" if (":" in used.ip) != (":" in best.ip) else "address",
        what_if=f"{format_ms(gain)} less a round trip over {best.ip}",
    )


def _black_hole(survey: Survey, address: Address) -> Iterable[Finding]:
    hole = next((one.black_hole for one in survey.oddities if one.ip == address.ip and one.black_hole), None)
    if hole is None:
        return
    larger = f"over {hole.passed} bytes" if hole.passed is not None else "of full size"
    where = f" beyond hop {hole.last_ttl} ({hole.last_ip})" if hole.last_ttl is not None else ""
    way = "to" if hole.way == "there" else "from"
    yield _make(
        survey,
        "route.mtu-blackhole",
        severity=Severity.CRITICAL,
        confidence=hole.confidence,
        values={"host": address.ip, "larger": larger, "where": where, "way": way, "proof": hole.proof[0]},
        ip=address.ip,
        count=hole.silent,
        of=hole.sent,
        cause=hole.way,
        notes=hole.proof[1:],
    )
