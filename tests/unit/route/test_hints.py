# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.errors import InputUnreadable
from netdiag.route.hints import load, patterns

AIRPORTS_BY_CHANCE = [
    *("com", "org", "the", "and", "bge", "pos", "gig", "atm", "hge", "cor", "bdr", "pop", "acr", "ccr", "bcr", "car"),
    *("csw", "irb", "mpr", "msw", "asr", "crs", "xcr", "bar", "tsr", "lan", "vpn", "mgt", "sta", "res", "cpe", "nat"),
    *("mar", "jan", "tun"),
]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ffm-bb4-link.telia.net", "FRA"),
        ("hbg-bb1-link.telia.net", "HAM"),
        ("ash-bb2-link.ip.twelve99.net", "IAD"),
        ("nyc-sb6-i.nyc.us.net.dtag.de", "JFK"),
        ("hh-ea8-i.HH.DE.NET.DTAG.DE", "HAM"),
        ("ae-61-61.csw1.NewYork1.Level3.net", "JFK"),
        ("if-7-2.tcore1.AD1-Amsterdam.as6453.net", "AMS"),
        ("be2878.ccr21.cle04.atlas.cogentco.com", "CLE"),
        ("be3036.ccr22.den01.atlas.cogentco.com", "DEN"),
        ("ae-4.r24.frnkge13.de.bb.gin.ntt.net", "FRA"),
        ("ae-2.r20.asbnva02.us.bb.gin.ntt.net", "IAD"),
        ("100ge3-2.core1.ash1.he.net", "IAD"),
        ("server-1-2-3-4.fra56.r.cloudfront.net", "FRA"),
        ("nl-ams02a-rc2-lag60-2.core.as9143.net", "AMS"),
        ("ae1.frankfurt1.edge.test", "FRA"),
        ("router7.kualalumpur.example.org", "KUL"),
        ("p3e9bf4ca.dip0.t-ipconnect.de", None),
        ("berlin-customer.cust.telia.net", None),
        ("nothing.example.org", None),
        ("frankfurt.com", None),
    ],
)
def test_real_names(name, code):
    hint = patterns().read(name)
    assert (hint.place.code if hint else None) == code


@pytest.mark.parametrize("token", AIRPORTS_BY_CHANCE)
def test_common_router_words_are_no_places_outside_a_known_zone(token):
    assert patterns().read(f"ae1.{token}1.isp.example") is None


@pytest.mark.parametrize(
    "name", [None, "", ".", "\x1b[31mfrankfurt.lab.test", "frankfurt\x00.lab.test", "ﬀm-bb1.telia.net"]
)
def test_names_that_are_none(name):
    assert patterns().read(name) is None


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    hint = patterns().read(text)
    assert hint is None or hint.place.code is not None


def test_a_pattern_without_a_place_is_refused(tmp_path):
    bad = tmp_path / "operators.toml"
    bad.write_text('[customers]\nwords = []\n[[operators]]\nname = "x"\nzone = ["x.net"]\npattern = "a"\n')
    with pytest.raises(InputUnreadable, match="no group"):
        load(bad)


def test_aliases_name_cities_that_exist():
    from netdiag.route.gazetteer import gazetteer

    codes = {code for operator in patterns().operators for code in operator.aliases.values()}
    assert codes - set(gazetteer().codes) == set()
