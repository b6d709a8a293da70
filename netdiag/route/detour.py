# SPDX-License-Identifier: Apache-2.0
"""The detour rule, literally, with its guards and classes. It claims only what neither physics nor silence can undo.

Suspect := shortest round trip over 1.5 × baseline, and at least two geographic regions on the way. The guards: the
excess is at least 10 ms and three times what the baseline scatters; a region counts from two neighbouring hops on, or
one hop whose name or exchange agrees with physics. The client's and the target's own regions are part of the set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from netdiag.route.baseline import Baseline
from netdiag.route.figures import Figures
from netdiag.route.gazetteer import Place
from netdiag.route.physics import distance_km, fibre_ms, loop_km, vacuum_ms
from netdiag.route.places import COUNTS, Here, Located

__all__ = ["Case", "Detour", "Kind", "Spot", "judge", "regions_on"]

Kind = str
"""steering, boomerang, inflated, long-haul, contradictory."""

RATIO, LEAST_EXTRA_MS, MADS = 1.5, 10.0, 3.0
_LONG_HAUL = 2.0
_STRONG = frozenset({"rdns", "exchange", "header"})
_SOURCE_TRUST = {"given": 0.95, "measured": 0.95, "history": 0.85, "synthetic": 0.65}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A hop whose place is known well enough to count, or was refuted."""

    ttl: int
    ip: str
    located: Located


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that the rule looks at."""

    rtt: Figures | None
    """Of connections to the target, never of hops."""
    baseline: Baseline | None
    here: Here | None
    target: Located | None
    """Where the target answered from; None: not known."""
    spots: tuple[Spot, ...] = ()
    """Located and refuted hops, in order of the way."""
    nearer: tuple[Place, ...] = ()
    """Places in the client's own region that the service is known to be served from."""
    nearer_ms: float | None = None
    """Shortest round trip measured to one of them."""
    unplaced: int = 0
    """Public routers on the way whose place is not known."""
    proxied: bool = False
    """Whether something nearer than the target opens its connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detour:
    """The verdict. Members are those of `detour` in the JSON output."""

    verdict: str
    """none, suspect, confirmed, unknown."""
    kind: Kind | None = None
    rtt_ratio: float | None = None
    regions: tuple[str, ...] = ()
    extra_ms: float | None = None
    extra_km: float | None = None
    confidence: float | None = None
    """None: no claim is made that could be right or wrong."""
    says: str = ""
    """The verdict in one sentence."""
    way: tuple[str, ...] = ()
    """Cities that the verdict rests on, in order."""
    evidence: tuple[str, ...] = ()
    refuted_if: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Foreign:
    """A region that the way visits and that is neither the client's nor the target's."""

    region: str
    spot: Spot
    """The hop that shows it best."""


def judge(case: Case) -> Detour:
    """Return the verdict on a way."""
    lacking = _lacking(case)
    if lacking or case.rtt is None or case.baseline is None:
        return Detour(verdict="unknown", says="too little is known for a verdict", missing=lacking)
    ratio = case.rtt.min_ms / case.baseline.rtt_ms if case.baseline.rtt_ms > 0 else None
    base = Detour(verdict="none", rtt_ratio=ratio, regions=regions_on(case), evidence=(_rule(case, ratio),))
    if case.proxied:
        return _proxied(case, base)
    if case.here is None:
        return _without_here(case, base)
    if _is_long_haul(case):
        return _long_haul(case, base)
    if not _slow(case):
        return replace(base, says="no detour: the round trip is what the region's is", confidence=_trust(case))
    return _slow_way(case, case.here, replace(base, extra_ms=case.rtt.min_ms - case.baseline.rtt_ms))


# --- the parts of the rule ----------------------------------------------------------------------------------------


def _lacking(case: Case) -> tuple[str, ...]:
    missing = []
    if case.rtt is None:
        missing.append("a round trip to the target: no connection was answered")
    elif case.baseline is None:
        more = "where this service is served from is not known" if case.here else "or --vantage LAT,LON"
        missing.append(f"a baseline: --baseline-ms N, --landmarks; {more}")
    return tuple(missing)


def _slow(case: Case) -> bool:
    """Tell whether the round trip breaks the first half of the rule, guards included."""
    if case.rtt is None or case.baseline is None:
        return False
    extra = case.rtt.min_ms - case.baseline.rtt_ms
    guard = max(LEAST_EXTRA_MS, MADS * (case.baseline.mad_ms or 0.0))
    return case.rtt.min_ms > RATIO * case.baseline.rtt_ms and extra >= guard


def _rule(case: Case, ratio: float | None) -> str:
    assert case.rtt is not None  # noqa: S101 - `judge` looked
    assert case.baseline is not None  # noqa: S101
    base = case.baseline
    how = {"given": "as given", "history": f"{base.n} earlier checks", "synthetic": "computed: 2 × fibre"}
    source = how.get(base.source, f"{base.n} places in the region")
    times = f"{ratio:.1f} ×" if ratio is not None else "against"
    return f"{case.rtt.min_ms:.1f} ms is {times} the baseline {base.rtt_ms:.1f} ms ({source})"


def _home(case: Case) -> tuple[str, ...]:
    return case.here.place.regions if case.here else ()


def _goal(case: Case) -> tuple[str, ...]:
    return case.target.place.regions if case.target is not None and case.target.counts else ()


def regions_on(case: Case) -> tuple[str, ...]:
    """Return the regions of the way in order, the client's and the target's included; border cities add none twice."""
    order: list[tuple[str, ...]] = []
    ends = [_home(case), *(spot.located.place.regions for spot in _counted(case)), _goal(case)]
    for regions in ends:
        if regions and not any(set(regions) & set(known) for known in order):
            order.append(regions)
    return tuple(regions[0] for regions in order)


def _counted(case: Case) -> list[Spot]:
    """Return the hops whose region counts: two neighbours that agree, or one whose strong hint physics allows."""
    spots = [spot for spot in case.spots if spot.located.counts]
    kept = []
    for at, spot in enumerate(spots):
        around = [spots[other] for other in (at - 1, at + 1) if 0 <= other < len(spots)]
        agreed = any(set(spot.located.place.regions) & set(other.located.place.regions) for other in around)
        strong = spot.located.source in _STRONG and case.here is not None
        if agreed or strong:
            kept.append(spot)
    return kept


def _foreign(case: Case) -> list[_Foreign]:
    known = set(_home(case)) | set(_goal(case))
    best: dict[str, Spot] = {}
    for spot in _counted(case):
        region = spot.located.place.region
        if region is None or set(spot.located.place.regions) & known:
            continue
        if region not in best or spot.located.confidence > best[region].located.confidence:
            best[region] = spot
    return [_Foreign(region=region, spot=spot) for region, spot in best.items()]


def _trust(case: Case, spots: Iterable[Spot] = (), *also: float) -> float:
    """Return the weakest of what a verdict needs: its hops, the number of round trips, the kind of baseline."""
    assert case.rtt is not None  # noqa: S101 - `judge` looked
    assert case.baseline is not None  # noqa: S101
    counted = 0.95 if case.rtt.n >= 10 else 0.85 if case.rtt.n >= 5 else 0.7
    weakest = min([counted, _SOURCE_TRUST[case.baseline.source], *(s.located.confidence for s in spots), *also])
    return round(weakest, 3)


# --- verdicts -----------------------------------------------------------------------------------------------------


def _proxied(case: Case, base: Detour) -> Detour:
    named = case.target.notes[:1] if case.target is not None else ()
    return replace(
        base,
        verdict="unknown",
        kind="contradictory",
        says="something nearer than the target opens its connections: round trips are to that, not to the target",
        evidence=(*base.evidence, *named),
        missing=("a round trip to the target itself: a way past the proxy",),
    )


def _without_here(case: Case, base: Detour) -> Detour:
    missing = ("where this client is: --vantage LAT,LON",)
    if not _slow(case):
        return replace(base, says="no detour: the round trip is what the baseline is", confidence=_trust(case))
    says = "slower than the baseline; the client's own region is not known"
    return replace(base, verdict="unknown", says=says, missing=missing, extra_ms=_extra(case))


def _extra(case: Case) -> float | None:
    return case.rtt.min_ms - case.baseline.rtt_ms if case.rtt and case.baseline else None


def _is_long_haul(case: Case) -> bool:
    goal, here = _goal(case), case.here
    if not goal or here is None or set(goal) & set(_home(case)) or case.nearer:
        return False
    assert case.target is not None  # noqa: S101 - it has a region
    assert case.rtt is not None  # noqa: S101 - `judge` looked
    direct = fibre_ms(2 * (distance_km(here.place.point, case.target.place.point) + here.radius_km))
    return case.rtt.min_ms <= _LONG_HAUL * direct


def _long_haul(case: Case, base: Detour) -> Detour:
    assert case.target is not None  # noqa: S101 - `_is_long_haul` looked
    assert case.here is not None  # noqa: S101
    city, km = _city(case.target.place), distance_km(case.here.place.point, case.target.place.point)
    return replace(
        base,
        kind="long-haul",
        confidence=_trust(case, (), case.target.confidence),
        says=f"distance, not detour: {city} is {km:,.0f} km away; no nearer place of this service is known",
        way=(_city(case.here.place), city),
        evidence=(*base.evidence, *_placed(case)),
        refuted_if=(f"a place of this service in {_home(case)[0]}",),
    )


def _slow_way(case: Case, here: Here, base: Detour) -> Detour:
    goal = _goal(case)
    if goal and not set(goal) & set(_home(case)) and case.nearer:
        return _steering(case, here, base)
    foreign = [one for one in _foreign(case) if _allows(case, here, one)]
    if goal and foreign:
        return _boomerang(case, here, base, foreign)
    if foreign:
        return _open_end(case, here, base, foreign)
    contradicted = [one for one in _foreign(case) if one not in foreign]
    strong = [spot for spot in case.spots if any(hint.source in _STRONG for hint in spot.located.refuted)]
    if contradicted or strong:
        return _contradictory(base, contradicted, strong)
    return _inflated(case, here, base)


def _allows(case: Case, here: Here, foreign: _Foreign) -> bool:
    """Tell whether the round trip is long enough for fibre over that region."""
    assert case.rtt is not None  # noqa: S101 - `judge` looked
    return case.rtt.min_ms >= fibre_ms(_via_km(case, here, foreign.spot.located.place))


def _via_km(case: Case, here: Here, place: Place) -> float:
    end = case.target.place.point if case.target is not None and case.target.counts else here.place.point
    return max(0.0, loop_km(here.place.point, place.point, end) - 2 * here.radius_km)


def _steering(case: Case, here: Here, base: Detour) -> Detour:
    assert case.target is not None  # noqa: S101 - it has a region
    there = case.target.place
    near = min(case.nearer, key=lambda place: distance_km(here.place.point, place.point))
    away = f"{case.nearer_ms:.0f} ms away" if case.nearer_ms is not None else "near"
    km = 2 * (distance_km(here.place.point, there.point) - distance_km(here.place.point, near.point))
    hard = vacuum_ms(max(0.0, 2 * distance_km(here.place.point, there.point) - 2 * here.radius_km))
    return replace(
        base,
        verdict="suspect",
        kind="steering",
        extra_km=km,
        confidence=_trust(case, (), case.target.confidence),
        says=f"served from {_city(there)} though {_city(near)} is {away}",
        way=(_city(here.place), _city(there)),
        evidence=(*base.evidence, *_placed(case), f"{_city(near)} is a place of this service in {near.region}"),
        refuted_if=(
            f"a round trip under {hard:.1f} ms (vacuum light to {_city(there)}) on this address",
            f"an answer that names {_city(near)}, or another address of this name that is served from there",
        ),
    )


def _boomerang(case: Case, here: Here, base: Detour, foreign: Sequence[_Foreign]) -> Detour:
    assert case.target is not None  # noqa: S101 - it has a region
    best = max(foreign, key=lambda one: _via_km(case, here, one.spot.located.place))
    away, there = best.spot.located.place, case.target.place
    km = _via_km(case, here, away)
    direct = 2 * distance_km(here.place.point, there.point)
    if km < 1.3 * direct:  # it lies on the way
        return _inflated(case, here, base)
    return replace(
        base,
        verdict="suspect",
        kind="boomerang",
        extra_km=km - direct,
        confidence=_trust(case, [best.spot], case.target.confidence),
        says=f"{_city(here.place)} → {_city(away)} → {_city(there)}",
        way=(_city(here.place), _city(away), _city(there)),
        evidence=(*base.evidence, _seen(best.spot), *_placed(case), f"fibre that way needs {fibre_ms(km):.1f} ms"),
        refuted_if=(
            f"any round trip under {vacuum_ms(km):.1f} ms (vacuum light that way) on this address",
            f"the name of hop {best.spot.ttl} being stale: its router standing elsewhere",
        ),
    )


def _open_end(case: Case, here: Here, base: Detour, foreign: Sequence[_Foreign]) -> Detour:
    """Judge a way into another region whose end is not known: it stays there (steering) or comes back (boomerang)."""
    best = max(foreign, key=lambda one: one.spot.located.confidence)
    away = best.spot.located.place
    km = _via_km(case, here, away)
    last = _counted(case)[-1].located.place
    stays = bool(set(last.regions) & set(away.regions))
    kind = ("steering" if case.nearer else None) if stays else "boomerang"
    missing = (_where(case),)
    seen = (*base.evidence, _seen(best.spot), f"fibre there and back needs {fibre_ms(km):.1f} ms")
    if kind is None:
        says = f"the way leads to {_city(away)}; whether the service has a nearer place is not known"
        return replace(base, verdict="unknown", says=says, evidence=seen, missing=missing)
    near = min(case.nearer, key=lambda place: distance_km(here.place.point, place.point), default=None)
    where = f" though the service has a place in {_city(near)}" if near is not None and stays else ""
    return replace(
        base,
        verdict="suspect",
        kind=kind,
        extra_km=km,
        confidence=min(0.5, _trust(case, [best.spot])),
        says=f"{_city(here.place)} → {_city(away)}{where}",
        way=(_city(here.place), _city(away)),
        evidence=seen,
        refuted_if=(
            f"any round trip under {vacuum_ms(km):.1f} ms (vacuum light that way) on this address",
            f"the name of hop {best.spot.ttl} being stale: its router standing elsewhere",
        ),
        missing=missing,
    )


def _contradictory(base: Detour, doubtful: Sequence[_Foreign], refuted: Sequence[Spot]) -> Detour:
    facts = [
        f"hop {spot.ttl}: {spot.located.notes[-1]}, {spot.located.refuted_by or ''}".rstrip(", ") for spot in refuted
    ]
    facts += [
        f"hop {one.spot.ttl} names {_city(one.spot.located.place)}, faster than fibre goes there" for one in doubtful
    ]
    return replace(
        base,
        verdict="unknown",
        kind="contradictory",
        says="slower than the baseline, but what names say of the way contradicts the round trips",
        evidence=(*base.evidence, *facts),
        missing=("one more word on where those routers are",),
    )


def _inflated(case: Case, here: Here, base: Detour) -> Detour:
    missing = []
    if case.unplaced:
        missing.append(f"places of {case.unplaced} routers on the way")
    if not _goal(case):
        missing.append(_where(case))
    return replace(
        base,
        verdict="unknown" if missing else "none",
        kind="inflated",
        confidence=None if missing else _trust(case),
        says="slow without geographic evidence: no detour is claimed",
        way=(_city(here.place),),
        evidence=(*base.evidence, *_placed(case), _inside(case)),
        refuted_if=("a check from the same place that is not slow: then it passes",),
        missing=tuple(missing),
    )


def _where(case: Case) -> str:
    """Return what would tell where the target answered from, and what is said of it that does not count."""
    if case.target is None:
        return "where the target answered from: no header of its answer names its place"
    city, notes = _city(case.target.place), ", ".join(case.target.notes)
    if case.target.refuted_by is not None:
        return f"where the target answered from: not from {city} ({notes}): {case.target.refuted_by}"
    sure = f"{case.target.confidence:.2f}, from {COUNTS} on a place counts"
    return f"a surer word on where the target answered from: perhaps {city} ({notes}; {sure})"


# --- words --------------------------------------------------------------------------------------------------------


def _city(place: Place) -> str:
    return place.city or f"{place.latitude:.1f},{place.longitude:.1f}"


def _seen(spot: Spot) -> str:
    return f"hop {spot.ttl} is in {_city(spot.located.place)}: {', '.join(spot.located.notes)}"


def _inside(case: Case) -> str:
    if not any(spot.located.counts for spot in case.spots):
        return "no place of any hop is known"
    return "no hop with a known place is outside the region"


def _placed(case: Case) -> list[str]:
    if case.target is None or not case.target.counts:
        return []
    return [f"the target answered from {_city(case.target.place)}: {', '.join(case.target.notes)}"]
