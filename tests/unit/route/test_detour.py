# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.baseline import Baseline
from netdiag.route.detour import Case, Spot, judge, regions_on
from netdiag.route.figures import Figures
from netdiag.route.gazetteer import gazetteer
from netdiag.route.places import Here, Hint, Located

CITIES = gazetteer().codes
HERE = Here(place=CITIES["BER"], radius_km=30.0, source="given")


def rtt(ms, n=12):
    return Figures(min_ms=ms, median_ms=ms + 1, p95_ms=ms + 2, n=n)


def base(ms=12.0, mad=None, source="given"):
    return Baseline(rtt_ms=ms, mad_ms=mad, source=source, n=1)


def located(code, confidence=0.85, source="rdns", **more):
    return Located(place=CITIES[code], confidence=confidence, source=source, notes=(f"rDNS {code}",), **more)


def spot(ttl, code, confidence=0.85, source="rdns"):
    return Spot(ttl=ttl, ip=f"198.18.0.{ttl}", located=located(code, confidence, source))


def case(ms=88.0, *, target="FRA", spots=(), **more):
    goal = located(target, 0.95, "header") if target else None
    return replace(Case(rtt=rtt(ms), baseline=base(), here=HERE, target=goal, spots=tuple(spots)), **more)


NEW_YORK = (spot(2, "BER"), spot(4, "JFK"), spot(6, "JFK"), spot(7, "FRA"))


def test_a_boomerang():
    found = judge(case(spots=NEW_YORK))
    assert (found.verdict, found.kind, found.regions) == ("suspect", "boomerang", ("EU-W", "NA-E"))
    assert found.extra_ms == 76.0
    assert found.extra_km == pytest.approx(12_000, rel=0.05)
    assert found.way == ("Berlin", "New York", "Frankfurt")
    assert any("under 42.9" in text or "under 43" in text for text in found.refuted_if)


def test_steering_needs_a_nearer_place():
    near = case(95.0, target="IAD", nearer=(CITIES["FRA"],))
    assert (judge(near).verdict, judge(near).kind) == ("suspect", "steering")
    far = judge(replace(near, nearer=()))
    assert (far.verdict, far.kind) == ("none", "long-haul")


def test_inflated_claims_nothing():
    found = judge(case(40.0, spots=(spot(2, "BER"), spot(6, "FRA"))))
    assert (found.verdict, found.kind) == ("none", "inflated")
    unplaced = judge(case(40.0, spots=(spot(2, "BER"),), unplaced=3))
    assert (unplaced.verdict, unplaced.kind, unplaced.confidence) == ("unknown", "inflated", None)
    assert unplaced.missing


def test_a_strong_hint_that_light_refutes_contradicts():
    hint = Hint(place=CITIES["JFK"], weight=0.85, source="rdns", note="rDNS nyc", capped=False)
    refuted = Located(
        place=CITIES["JFK"],
        confidence=0.0,
        source="rdns",
        notes=("rDNS nyc: refuted",),
        refuted_by="x",
        refuted=(hint,),
    )
    found = judge(case(36.0, spots=(Spot(ttl=4, ip="198.18.0.4", located=refuted),)))
    assert (found.verdict, found.kind) == ("unknown", "contradictory")


@pytest.mark.parametrize(
    "changed",
    [
        {"rtt": rtt(18.0)},  # exactly 1.5 times
        {"rtt": rtt(21.9)},  # under 10 ms more
        {"baseline": base(12.0, mad=30.0)},  # within what the baseline scatters
        {"baseline": base(80.0)},
    ],
)
def test_the_guards(changed):
    assert judge(replace(case(spots=NEW_YORK), **changed)).verdict == "none"


@pytest.mark.parametrize(
    ("normal", "ms", "verdict"),
    [
        (40.0, 60.0, "none"),  # 150 % exactly
        (40.0, 60.001, "suspect"),
        (12.0, 21.999, "none"),  # less than 10 ms more
        (12.0, 22.0, "suspect"),  # 10 ms more exactly
        (19.9, 29.9, "suspect"),
    ],
)
def test_the_rule_at_its_limits(normal, ms, verdict):
    near = (spot(2, "BER"), spot(4, "SVO"), spot(5, "SVO"), spot(7, "FRA"))
    found = judge(replace(case(ms, spots=near), baseline=base(normal, mad=1.0)))
    assert found.verdict == verdict


@pytest.mark.parametrize(("mad", "verdict"), [(16.0, "suspect"), (16.001, "none")])
def test_three_times_what_the_baseline_scatters(mad, verdict):
    assert judge(replace(case(88.0, spots=NEW_YORK), baseline=base(40.0, mad=mad))).verdict == verdict


def test_one_region_is_no_detour_however_slow():
    found = judge(case(88.0, spots=(spot(2, "BER"), spot(4, "LHR"), spot(5, "LHR"), spot(7, "FRA"))))
    assert found.regions == ("EU-W",)
    assert (found.verdict, found.kind) == ("none", "inflated")


def test_a_single_weak_hop_is_no_region():
    lonely = (spot(2, "BER"), spot(4, "JFK", 0.6, "database"), spot(7, "FRA"))
    assert regions_on(case(spots=lonely)) == ("EU-W",)
    pair = (spot(2, "BER"), spot(4, "JFK", 0.6, "database"), spot(5, "JFK", 0.6, "database"), spot(7, "FRA"))
    assert regions_on(case(spots=pair)) == ("EU-W", "NA-E")


def test_a_border_city_adds_no_region():
    assert regions_on(case(spots=(spot(3, "VIE"), spot(4, "PRG")))) == ("EU-W",)


def test_a_region_that_lies_on_the_way_is_no_boomerang():
    mumbai = Here(place=CITIES["BOM"], radius_km=30.0, source="given")
    found = judge(case(200.0, target="LHR", spots=(spot(4, "DXB"), spot(5, "DXB")), here=mumbai))
    assert found.kind != "boomerang"


@pytest.mark.parametrize(("missing", "word"), [({"rtt": None}, "round trip"), ({"baseline": None}, "baseline")])
def test_unknown_names_what_is_missing(missing, word):
    found = judge(replace(case(), **missing))
    assert found.verdict == "unknown"
    assert word in found.missing[0]


def test_without_a_place_of_the_client_nothing_is_claimed():
    found = judge(replace(case(spots=NEW_YORK), here=None))
    assert found.verdict == "unknown"
    assert "--vantage" in found.missing[0]


def test_an_open_end_is_possible_at_most():
    there = judge(case(target=None, spots=(spot(2, "BER"), spot(4, "JFK"), spot(5, "JFK")), nearer=(CITIES["FRA"],)))
    assert (there.verdict, there.kind, there.confidence) == ("suspect", "steering", 0.5)
    back = judge(case(target=None, spots=NEW_YORK))
    assert (back.verdict, back.kind, back.confidence) == ("suspect", "boomerang", 0.5)
    unknown = judge(case(target=None, spots=(spot(2, "BER"), spot(4, "JFK"), spot(5, "JFK"))))
    assert (unknown.verdict, unknown.kind) == ("unknown", None)


@pytest.mark.parametrize("spots", [(), (spot(2, "BER"), spot(4, "JFK"), spot(5, "JFK"))])
@pytest.mark.parametrize(
    ("target", "words"),
    [
        (None, ("where the target answered from: no header",)),
        (located("FRA", 0.5, source="database"), ("a surer word", "perhaps Frankfurt", "0.50, from 0.6 on")),
        (located("FRA", 0.0, refuted_by="light is too slow"), ("not from Frankfurt", "light is too slow")),
        (located("FRA", 0.6), ()),
    ],
)
def test_what_is_lacking_of_the_targets_place_agrees_with_what_is_known_of_it(target, words, spots):
    found = judge(replace(case(spots=spots), target=target))
    told = [one for one in found.missing if "answered from" in one]
    assert bool(told) is bool(words)
    assert all(word in told[0] for word in words)


def test_a_computed_baseline_makes_likely_at_most():
    found = judge(replace(case(spots=NEW_YORK), baseline=base(source="synthetic")))
    assert found.verdict == "suspect"
    assert found.confidence is not None
    assert found.confidence <= 0.65


CODES = st.sampled_from(sorted(CITIES))
SPOTS = st.lists(
    st.tuples(st.integers(1, 30), CODES, st.floats(0, 1), st.sampled_from(["rdns", "database", "exchange"])), max_size=8
).map(lambda rows: tuple(spot(*row) for row in sorted(rows)))


@given(st.floats(0.1, 500), st.floats(0.1, 500), SPOTS, st.none() | CODES, st.lists(CODES, max_size=3))
def test_a_suspicion_always_rests_on_the_rule(ms, normal, spots, target, nearer):
    places = tuple(CITIES[code] for code in nearer if set(CITIES[code].regions) & set(HERE.place.regions))
    found = judge(case(ms, target=target, spots=spots, baseline=base(normal), nearer=places))
    if found.verdict == "suspect":
        assert ms > 1.5 * normal
        assert ms - normal >= 10
        assert len(found.regions) >= 2
        assert found.kind in {"steering", "boomerang"}
        assert found.refuted_if
        assert found.confidence is not None
        assert 0 < found.confidence <= 0.95
