# SPDX-License-Identifier: Apache-2.0
"""From a measurement to all that is said about it: one pure function, `examine`, that calls the others in order."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from netdiag.route import baseline, figures, flips, hops, loss, oddities, pops, surroundings
from netdiag.route.aspath import Step, as_path, served_from
from netdiag.route.baseline import Baseline
from netdiag.route.detour import Case, Detour, Spot, judge, regions_on
from netdiag.route.figures import Figures
from netdiag.route.flips import Cluster
from netdiag.route.gazetteer import Place, airport, gazetteer
from netdiag.route.hops import Balance, Hop, Path
from netdiag.route.knowledge import Knowledge
from netdiag.route.loss import Loss
from netdiag.route.model import Connect, Measurement, Protocol, Trace
from netdiag.route.oddities import Oddities
from netdiag.route.persistence import Check, confirm
from netdiag.route.physics import distance_km, fibre_ms
from netdiag.route.places import Bounds, Here, Hint, Located, hints_of, locate
from netdiag.route.pop_names import WEIGHT, Pop, from_headers
from netdiag.route.pops import Decision, State, Window
from netdiag.route.vantage import find_here, names_of

__all__ = ["Address", "Inputs", "Survey", "View", "examine"]

_BESIDE_MS = 3.0
"""A target that answers this little later than the last router is within 300 km of it."""
_BESIDE = 0.75
"""What that takes from the router's confidence: its answer may have come late for reasons of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the user or an earlier check adds."""

    baseline_ms: float | None = None
    earlier: tuple[Check, ...] = ()
    """Earlier checks of the same target from here, oldest first."""
    loads: Mapping[str, float] = field(default_factory=dict)
    """Load in per cent by address or by airport code of the place."""
    by_load: bool = False
    states: Mapping[str, State] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address of the target."""

    ip: str
    resolvers: tuple[str, ...]
    """Who answered with it; ECS questions carry the subnet behind a plus."""
    pop: str | None
    pop_source: str | None
    located: Located | None
    rtt: Figures | None
    tls: Figures | None
    """TLS handshakes on standing connections."""
    loss: Loss
    clusters: tuple[Cluster, ...]
    ports: int
    """Source ports among the attempts."""
    outcomes: Mapping[str, int]
    """How many attempts ended in which way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A path with what is known of it."""

    path: Path
    located: Mapping[str, Located]
    """By address of a responder."""
    steps: tuple[Step, ...]
    regions: tuple[str, ...]
    rtt: Figures | None
    """Of connections to that address, else of the trace's own answers."""
    floor_ms: float | None
    """Light in fibre, straight there and back; None: an end is not known."""
    notes: tuple[str, ...] = ()
    """What places and round trips together tell of single hops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A measurement and everything that follows from it."""

    measurement: Measurement
    knowledge: Knowledge
    inputs: Inputs
    names: Mapping[str, str]
    here: Here | None
    addresses: tuple[Address, ...]
    views: tuple[View, ...]
    baseline: Baseline | None
    detour: Detour
    decisions: Mapping[str, Decision]
    """By address."""
    windows: Mapping[str, Window]
    states: Mapping[str, State]
    """To be given to the next check."""
    oddities: tuple[Oddities, ...] = ()
    proxied: bool = False
    """Round trips are to something nearer that opens connections for the target."""


def examine(measurement: Measurement, knowledge: Knowledge, inputs: Inputs | None = None) -> Survey:
    """Return all that follows from a measurement. The first address is the one that a client of this host takes."""
    inputs = inputs or Inputs()
    names = names_of(measurement)
    paths, seconds = _paths(measurement)
    here = find_here(measurement, paths, names)
    addresses = tuple(_address(measurement, knowledge, names, here, ip) for ip in _ips(measurement))
    views = tuple(_view(path, knowledge, names, here, _find(addresses, path.trace.ip)) for path in paths)
    if placed := {address.ip: found for address in addresses if (found := _beside(address, views)) is not None}:
        addresses = tuple(
            replace(one, located=placed[one.ip], pop=placed[one.ip].place.code, pop_source="rdns")
            if one.ip in placed
            else one
            for one in addresses
        )
        views = tuple(_view(path, knowledge, names, here, _find(addresses, path.trace.ip)) for path in paths)
    views = tuple(_surrounded(view, measurement, _find(addresses, view.path.trace.ip), seconds) for view in views)
    base = _baseline(measurement, knowledge, inputs, here, addresses, views)
    view = _first(addresses, views)
    proxied = view is not None and surroundings.is_proxied(addresses[0].located, view.path, seconds)
    detour = _detour(knowledge, here, addresses, view, base, proxied=proxied)
    now_s = measurement.clocks.realtime_ns / 1e9
    windows = {address.ip: _window(address, base, inputs, here) for address in addresses}
    states, decisions = pops.decide(
        inputs.states, windows, measurement.clocks.monotonic_ns / 1e9, by_load=inputs.by_load
    )
    return Survey(
        measurement=measurement,
        knowledge=knowledge,
        inputs=inputs,
        names=names,
        here=here,
        addresses=addresses,
        views=views,
        baseline=base,
        detour=confirm(detour, inputs.earlier, now_s),
        decisions=decisions,
        windows=windows,
        states=states,
        oddities=tuple(oddities.read(one) for one in measurement.odd),
        proxied=proxied,
    )


def _paths(measurement: Measurement) -> tuple[list[Path], list[Path]]:
    """Return the paths of the protocol that was asked about, completed by others, and those others."""
    own = [trace for trace in measurement.traces if trace.protocol is measurement.target.protocol]
    own = own or list(measurement.traces)
    seconds = [hops.build(trace) for trace in measurement.traces if trace not in own]
    return [
        hops.filled(hops.build(trace), [one for one in seconds if one.trace.ip == trace.ip]) for trace in own
    ], seconds


# --- addresses ----------------------------------------------------------------------------------------------------


def _ips(measurement: Measurement) -> list[str]:
    """Return the target's addresses: as the system's resolver gave them, then as others did, then as measured."""
    asked = [look for look in measurement.lookups if look.qtype in ("A", "AAAA") and _same_host(measurement, look.name)]
    asked.sort(key=lambda look: look.resolver != "system")
    measured = {connect.ip for connect in measurement.connects if connect.landmark is None}
    measured |= {trace.ip for trace in measurement.traces}
    ordered = [answer for look in asked for answer in look.answers if answer in measured]
    ordered += [connect.ip for connect in measurement.connects if connect.landmark is None]
    return list(dict.fromkeys([*ordered, *(trace.ip for trace in measurement.traces)]))


def _same_host(measurement: Measurement, name: str) -> bool:
    return name.rstrip(".").lower() == measurement.target.host.rstrip(".").lower()


def _address(
    measurement: Measurement, knowledge: Knowledge, names: Mapping[str, str], here: Here | None, ip: str
) -> Address:
    connects = [one for one in measurement.connects if one.ip == ip and one.landmark is None]
    measured = figures.connect_ms(connects)
    rtt = figures.of(ms for _, ms in measured) or _of_traces(measurement.traces, ip)
    pop = _pop(connects)
    bounds = Bounds(here=here, own_ms=rtt.min_ms if rtt else None, target_ms=None)
    hints = hints_of(names.get(ip), knowledge.of(ip))
    if pop is not None and pop.place is not None:
        hints = [Hint(place=pop.place, weight=WEIGHT, source="header", note=pop.evidence, capped=False), *hints]
    located = locate(hints, bounds)
    source = "header" if pop else located.source if located and located.refuted_by is None else None
    return Address(
        ip=ip,
        resolvers=tuple(dict.fromkeys(_who(measurement, ip))),
        pop=pop.code if pop else located.place.code if located and source else None,
        pop_source={"header": "header", "rdns": "rdns", "exchange": "rdns", "database": "database"}.get(source or ""),
        located=located,
        rtt=rtt,
        tls=figures.of(tried.tls.handshake_ms for one in connects for tried in one.attempts if tried.tls is not None),
        loss=loss.of(connects),
        clusters=flips.clusters(connects[0]) if connects else (),
        ports=len({attempt.source_port for one in connects for attempt in one.attempts}),
        outcomes=Counter(str(attempt.outcome) for one in connects for attempt in one.attempts),
    )


def _of_traces(traces: Iterable[Trace], ip: str) -> Figures | None:
    best = [trace for trace in traces if trace.ip == ip]
    best.sort(key=lambda trace: trace.protocol is not Protocol.TCP)
    found = (figures.of(figures.target_ms(trace)) for trace in best)
    return next((one for one in found if one), None)


def _who(measurement: Measurement, ip: str) -> Iterable[str]:
    for look in measurement.lookups:
        if look.qtype in ("A", "AAAA") and ip in look.answers and _same_host(measurement, look.name):
            yield look.resolver if look.subnet is None else f"{look.resolver}+{look.subnet}"


def _pop(connects: Sequence[Connect]) -> Pop | None:
    """Return the place that most answers name."""
    named = [
        pop
        for connect in connects
        for attempt in connect.attempts
        if attempt.http is not None and (pop := from_headers(attempt.http.headers)) is not None
    ]
    if not named:
        return None
    code = Counter(pop.code for pop in named).most_common(1)[0][0]
    return next(pop for pop in named if pop.code == code)


def _find(addresses: Iterable[Address], ip: str) -> Address | None:
    return next((address for address in addresses if address.ip == ip), None)


# --- paths --------------------------------------------------------------------------------------------------------


def _view(
    path: Path, knowledge: Knowledge, names: Mapping[str, str], here: Here | None, address: Address | None
) -> View:
    goal = _goal(path, address)
    target = goal.place.point if goal is not None and goal.counts else None
    bound_ms = _bound_ms(path, address)
    located: dict[str, Located] = {}
    for at, hop in enumerate(path.hops):
        for one in hop.responders:
            found = goal if hop.target and one.ip == path.trace.ip else None
            if found is None:
                bounds = Bounds(here=here, own_ms=one.min_ms, target_ms=bound_ms, target=target)
                hints = hints_of(names.get(one.ip), knowledge.of(one.ip), fits=_fits(path, at, one.ip, knowledge, here))
                found = locate(hints, bounds, factor=_factor(hop))
            if found is not None:
                located[one.ip] = found
    spots = _spots(path, located)
    rtt = address.rtt if address else None
    case = Case(rtt=rtt, baseline=None, here=here, target=goal, spots=spots)
    floor = fibre_ms(2 * distance_km(here.place.point, target)) if here and target else None
    return View(
        path=path,
        located=located,
        steps=as_path(path.hops, knowledge, path.trace.ip, reached=path.reached),
        regions=regions_on(case),
        rtt=rtt,
        floor_ms=floor,
        notes=tuple(surroundings.late_answers(spots, path, here)),
    )


def _surrounded(view: View, measurement: Measurement, address: Address | None, seconds: Sequence[Path]) -> View:
    said = surroundings.notes(measurement.vantage, address.located if address else None, view.path, seconds)
    return replace(view, notes=(*said, *view.notes))


def _beside(address: Address, views: Sequence[View]) -> Located | None:
    """Return the place of an address that nothing else tells: that of a router that it answers hardly later than."""
    if address.rtt is None or (address.located is not None and address.located.counts):
        return None
    for view in views:
        answering = [hop for hop in view.path.hops if hop.responders and not hop.target]
        if view.path.trace.ip != address.ip or not view.path.reached or not answering:
            continue
        hop = answering[-1]
        own = figures.of(figures.target_ms(view.path.trace)) or address.rtt
        found = view.located.get(hop.responders[0].ip)
        late = own.min_ms - hop.responders[0].min_ms
        if found is None or not found.counts or hop.tunnel or not -_BESIDE_MS <= late <= _BESIDE_MS:
            continue
        note = f"within {max(0.1, late):.1f} ms of hop {hop.ttl}"
        confidence = round(_BESIDE * found.confidence, 3)
        return Located(place=found.place, confidence=confidence, source="rdns", notes=(note, *found.notes[:1]))
    return None


def _goal(path: Path, address: Address | None) -> Located | None:
    """Return where this path's target is: of an address that several places answer, the one that its flow met."""
    if address is None:
        return None
    named = [one for one in address.clusters if one.pop is not None and airport(one.pop) is not None]
    own = figures.of(figures.target_ms(path.trace))
    if len(named) < 2 or own is None:
        return address.located
    met = min(named, key=lambda one: abs(one.figures.min_ms - own.min_ms))
    place = airport(met.pop or "")
    if met.pop == address.pop or place is None:
        return address.located
    note = f"as {met.count} connections said: {met.pop}"
    return Located(place=place, confidence=WEIGHT * 0.9, source="header", notes=(note,))


def _bound_ms(path: Path, address: Address | None) -> float | None:
    """Return the shortest round trip that surely took this path: flows may reach different sites."""
    own = figures.of(figures.target_ms(path.trace))
    if path.trace.single_flow and own is not None and address is not None and len(address.clusters) > 1:
        return own.min_ms
    times = [own.min_ms] if own else []
    if address is not None and address.rtt is not None:
        clusters = address.clusters
        times.append(max(one.figures.min_ms for one in clusters) if len(clusters) > 1 else address.rtt.min_ms)
    if len(address.clusters if address else ()) > 1:
        return max(times, default=None)
    return min(times, default=None)


def _factor(hop: Hop) -> float:
    return (0.5 if hop.tunnel else 1.0) * (0.7 if hop.balance is Balance.PACKET else 1.0)


def _fits(path: Path, at: int, ip: str, knowledge: Knowledge, here: Here | None) -> bool:
    """Tell whether round trips at this hop and a neighbour fit the place that the user's own database gives both."""
    if here is None:
        return False

    def place_of(one: str) -> tuple[float, float] | None:
        named = [found for found in knowledge.of(one).databases if found.named]
        return (named[0].latitude, named[0].longitude) if named else None

    def fits(one: hops.Responder, point: tuple[float, float]) -> bool:
        needed = fibre_ms(2 * distance_km(here.place.point, point))
        return 0.9 * needed <= one.min_ms + 2 * fibre_ms(here.radius_km) and one.min_ms <= 3 * needed + 15

    point = place_of(ip)
    own = next((one for one in path.hops[at].responders if one.ip == ip), None)
    if point is None or own is None or not fits(own, point):
        return False
    around = [path.hops[other] for other in (at - 1, at + 1) if 0 <= other < len(path.hops)]
    return any(
        (other := place_of(one.ip)) is not None and distance_km(other, point) <= 100 and fits(one, other)
        for hop in around
        for one in hop.responders
    )


def _spots(path: Path, located: Mapping[str, Located]) -> tuple[Spot, ...]:
    spots = []
    for hop in path.hops:
        known = [one for one in hop.responders if one.ip in located]
        if hop.target or not known:
            continue
        best = max(known, key=lambda one: located[one.ip].confidence)
        spots.append(Spot(ttl=hop.ttl, ip=best.ip, located=located[best.ip]))
    return tuple(spots)


# --- verdict ------------------------------------------------------------------------------------------------------


def _served(knowledge: Knowledge, addresses: Sequence[Address]) -> list[Place]:
    """Return the cities that the service is known to be served from: by its operator, and as measured."""
    asn = knowledge.of(addresses[0].ip).asn if addresses else None
    codes = served_from(asn) if asn is not None else ()
    cities = gazetteer().codes
    places = [cities[code] for code in codes if code in cities]
    places += [one.located.place for one in addresses if one.located is not None and one.located.counts]
    flipped = [cluster.pop for one in addresses for cluster in one.clusters if cluster.pop is not None]
    return [*places, *(place for code in flipped if (place := airport(code)) is not None)]


def _baseline(
    measurement: Measurement,
    knowledge: Knowledge,
    inputs: Inputs,
    here: Here | None,
    addresses: Sequence[Address],
    views: Sequence[View],
) -> Baseline | None:
    home = set(here.place.regions) if here else set()
    nearby = []
    for mark in measurement.landmarks:
        times = [ms for _, ms in figures.connect_ms(one for one in measurement.connects if one.landmark == mark.name)]
        if here is None or mark.latitude is None or mark.longitude is None or not times:
            continue
        place = gazetteer().at((mark.latitude, mark.longitude))
        if home & set(place.regions):
            nearby.append((distance_km(here.place.point, place.point), min(times)))
    nearby += [
        (distance_km(here.place.point, one.located.place.point), one.rtt.min_ms)
        for one in addresses[1:]
        if here and one.rtt and one.located and one.located.counts and home & set(one.located.place.regions)
    ]
    return baseline.choose(
        given_ms=inputs.baseline_ms,
        nearby=nearby,
        history=[check.rtt_ms for check in inputs.earlier if check.rtt_ms is not None and check.verdict == "none"],
        here=here,
        served=_served(knowledge, addresses),
        access_ms=_access_ms(views),
    )


def _access_ms(views: Sequence[View]) -> float:
    """Return what the line of this client costs on any way: its first two hops, as far as they are near."""
    first = views[0].path.hops[:2] if views else ()
    times = [hop.min_ms for hop in first if hop.min_ms is not None and not hop.target]
    return max((ms for ms in times if ms <= 30), default=0.0)


def _first(addresses: Sequence[Address], views: Sequence[View]) -> View | None:
    """Return the path to the address that a client takes: one that was reached, by TCP if there is one."""
    own = [view for view in views if addresses and view.path.trace.ip == addresses[0].ip]
    own.sort(key=lambda view: (not view.path.reached, view.path.trace.protocol is not Protocol.TCP))
    return own[0] if own else None


def _detour(
    knowledge: Knowledge,
    here: Here | None,
    addresses: Sequence[Address],
    view: View | None,
    base: Baseline | None,
    *,
    proxied: bool,
) -> Detour:
    address = addresses[0] if addresses else None
    home = set(here.place.regions) if here else set()
    goal = address.located.place if address and address.located and address.located.counts else None
    nearer = [place for place in _served(knowledge, addresses) if home & set(place.regions) and place != goal]
    measured = [
        one.rtt.min_ms
        for one in addresses
        if one is not address and one.rtt and one.located and one.located.counts and one.located.place in nearer
    ]
    spots = _spots(view.path, view.located) if view else ()
    placed = {spot.ttl for spot in spots}
    unplaced = [
        hop
        for hop in (view.path.hops if view else ())
        if not hop.target and hop.ttl not in placed and any(_public(one.ip) for one in hop.responders)
    ]
    return judge(
        Case(
            rtt=address.rtt if address else None,
            baseline=base,
            here=here,
            target=address.located if address else None,
            spots=spots,
            nearer=tuple(nearer),
            nearer_ms=min(measured, default=None),
            unplaced=len(unplaced),
            proxied=proxied,
        )
    )


def _public(ip: str) -> bool:
    return ipaddress.ip_address(ip).is_global


def _window(address: Address, base: Baseline | None, inputs: Inputs, here: Here | None) -> Window:
    rtt = address.rtt
    load = inputs.loads.get(address.ip, inputs.loads.get(address.pop or ""))
    return Window(
        median_ms=rtt.median_ms if rtt else None,
        p95_ms=rtt.p95_ms if rtt else None,
        n=rtt.n if rtt else 0,
        baseline_ms=base.rtt_ms if base else None,
        lost=address.loss.lost,
        sent=address.loss.sent,
        flows=address.ports,
        load_percent=load,
        at_home=_at_home(address, here),
    )


def _at_home(address: Address, here: Here | None) -> bool | None:
    """Tell whether an address answers from the client's region; None where one of the two is not known."""
    if here is None or address.located is None or not address.located.counts or not here.place.regions:
        return None
    regions = address.located.place.regions
    return bool(set(regions) & set(here.place.regions)) if regions else None
