# SPDX-License-Identifier: Apache-2.0
"""Where something stands: hints with weights, each tested against the speed of light, combined by noisy-or.

A refuted hint counts for nothing and stays visible. Unknown is a frequent and a good answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from netdiag.route.gazetteer import Place, gazetteer, is_centroid
from netdiag.route.hints import patterns
from netdiag.route.knowledge import DatabasePlace, IpFacts
from netdiag.route.physics import Point, distance_km, fibre_ms, loop_km, vacuum_ms

__all__ = ["COUNTS", "Bounds", "Here", "Hint", "Located", "hints_of", "locate"]

COUNTS = 0.6
"""A place counts in verdicts from this confidence on."""

_SAME_KM = 100.0
"""Hints this near mean the same place."""
_CAP = 0.5
"""Of databases alone."""
_EXCHANGE, _TWO_DATABASES, _DATABASE, _NAMED, _COUNTRY = 0.85, 0.4, 0.2, 0.6, 0.1
_SHARP_KM = 50.0
_BLUNT_KM = 200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Where the probes were sent from."""

    place: Place
    radius_km: float
    """How far off that may be."""
    source: str
    """given, or which hop it was taken from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What round trips allow for one hop."""

    here: Here | None
    own_ms: float | None
    """The hop's own shortest round trip."""
    target_ms: float | None
    """The shortest round trip to the target behind it: it bounds every hop, however slowly that one answers."""
    target: Point | None = None
    """Where the target is, if known."""

    def refutes(self, point: Point) -> str | None:
        """Return why nothing at that point can have answered so soon; None where it can."""
        return self._test(point, vacuum_ms, "light needs")

    def doubts(self, point: Point) -> str | None:
        """Return why an answer from that point is unlikely: it would beat light in fibre."""
        return self._test(point, fibre_ms, "fibre needs")

    def _test(self, point: Point, needed: object, words: str) -> str | None:
        assert callable(needed)  # noqa: S101 - both callers are above
        if self.here is None:
            return None
        slack = 2 * self.here.radius_km
        there = max(0.0, 2 * distance_km(self.here.place.point, point) - slack)
        if self.own_ms is not None and self.own_ms < needed(there):
            return f"answered in {self.own_ms:.1f} ms, {words} {needed(there):.1f}"
        if self.target_ms is None:
            return None
        loop = there
        if self.target is not None:
            loop = max(there, loop_km(self.here.place.point, point, self.target) - slack)
        if self.target_ms < needed(loop):
            return f"the target answered in {self.target_ms:.1f} ms, {words} {needed(loop):.1f} by that way"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One word on where an address is."""

    place: Place
    weight: float
    source: str
    """header, rdns, exchange, database, near: how it is known."""
    note: str
    """For a reader: `rDNS fra`, `cf-ray …-FRA`, `dbip says Toronto`."""
    capped: bool = True
    """Whether it alone is not enough for a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where something is believed to be."""

    place: Place
    confidence: float
    source: str
    notes: tuple[str, ...]
    """Evidence, the strongest first; refuted words last."""
    refuted_by: str | None = None
    """Not None: every hint is refuted, `place` is the strongest of them, and the confidence is 0."""
    refuted: tuple[Hint, ...] = ()
    """Hints that physics refutes."""

    @property
    def counts(self) -> bool:
        """Tell whether verdicts may rest on it."""
        return self.refuted_by is None and self.confidence >= COUNTS


def hints_of(name: str | None, facts: IpFacts, *, fits: bool = False) -> list[Hint]:
    """Return what a name and tables say about an address. `fits`: round trips step up as that place lets expect."""
    hints = []
    said = patterns().read(name)
    if said is not None:
        hints.append(Hint(place=said.place, weight=said.weight, source="rdns", note=f"rDNS {said.token}", capped=False))
    city = gazetteer().codes.get(facts.exchange_city or "")
    if facts.exchange and city:
        hints.append(Hint(place=city, weight=_EXCHANGE, source="exchange", note=f"at {facts.exchange}", capped=False))
    if not facts.anycast and not facts.exchange:
        hints += _from_databases(facts.databases, fits=fits)
    return hints


def _from_databases(found: Sequence[DatabasePlace], *, fits: bool) -> list[Hint]:
    hints = []
    for one in found:
        point = (one.latitude, one.longitude)
        if is_centroid(point) or (one.radius_km or 0.0) >= _BLUNT_KM or (one.city is None and one.radius_km is None):
            continue
        place = gazetteer().at(point, city=one.city, country=one.country)
        sharp = one.named and fits and one.radius_km is not None and one.radius_km <= _SHARP_KM
        hints.append(
            Hint(
                place=place,
                weight=_NAMED if sharp else _DATABASE,
                source="database",
                note=f"database says {place.city or 'a position'}",
                capped=not sharp,
            )
        )
    return _agreeing(hints)


def _agreeing(hints: list[Hint]) -> list[Hint]:
    """Let two databases within 100 km of each other weigh 0.4 together."""
    if len(hints) != 2 or distance_km(hints[0].place.point, hints[1].place.point) > _SAME_KM:
        return hints
    first = hints[0]
    weight = max(_TWO_DATABASES, *(hint.weight for hint in hints))
    return [
        Hint(
            place=first.place,
            weight=weight,
            source=first.source,
            note=f"two databases say {first.place.city or 'it'}",
            capped=all(hint.capped for hint in hints),
        )
    ]


def locate(hints: Iterable[Hint], bounds: Bounds, *, factor: float = 1.0) -> Located | None:
    """Return the place that the hints agree on best; None without a hint.

    `factor` scales the confidence: 0.5 inside an MPLS tunnel, 0.7 where packets of one flow are spread.
    """
    standing: list[tuple[Hint, float]] = []
    refuted: list[tuple[Hint, str]] = []
    for hint in hints:
        why = bounds.refutes(hint.place.point)
        if why is not None:
            refuted.append((hint, why))
        else:
            standing.append((hint, hint.weight * (0.5 if bounds.doubts(hint.place.point) else 1.0)))
    refuted_notes = [f"{hint.note}: refuted" for hint, _ in refuted]
    if not standing:
        if not refuted:
            return None
        hint, why = max(refuted, key=lambda pair: pair[0].weight)
        return Located(
            place=hint.place,
            confidence=0.0,
            source=hint.source,
            notes=tuple(refuted_notes),
            refuted_by=why,
            refuted=tuple(one for one, _ in refuted),
        )
    best = max(_groups(standing), key=_noisy_or)
    confidence = _noisy_or(best) * factor
    if all(hint.capped for hint, _ in best):
        confidence = min(confidence, _CAP)
    lead = max(best, key=lambda pair: pair[1])[0]
    tested = ["physics ok"] if bounds.here is not None and (bounds.own_ms or bounds.target_ms) else []
    return Located(
        place=lead.place,
        confidence=round(confidence, 3),
        source=lead.source,
        notes=(*dict.fromkeys(hint.note for hint, _ in best), *tested, *refuted_notes),
        refuted=tuple(one for one, _ in refuted),
    )


def _groups(standing: Sequence[tuple[Hint, float]]) -> list[list[tuple[Hint, float]]]:
    groups: list[list[tuple[Hint, float]]] = []
    for pair in sorted(standing, key=lambda one: -one[1]):
        for group in groups:
            if distance_km(group[0][0].place.point, pair[0].place.point) <= _SAME_KM:
                group.append(pair)
                break
        else:
            groups.append([pair])
    return groups


def _noisy_or(group: Iterable[tuple[Hint, float]]) -> float:
    return 1.0 - math.prod(1.0 - weight for _, weight in group)
