# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.pop_names import from_headers


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("cf-ray", "8f00ba12cafe0001-FRA", "FRA"),
        ("x-amz-cf-pop", "FRA56-P4", "FRA"),
        ("x-amz-cf-pop", "NRT57-C2", "NRT"),
        ("x-served-by", "cache-iad-kiad7000025-IAD, cache-fra-eddf8230045-FRA", "FRA"),
        ("cf-ray", "8f00ba12cafe0001", None),
        ("cf-ray", "8f00ba12cafe0001-fra", None),
        ("cf-ray", "x" * 5000, None),
        ("server", "FRA", None),
    ],
)
def test_headers(header, value, code):
    pop = from_headers({header: value})
    assert (pop.code if pop else None) == code


def test_a_code_without_a_city_is_a_name_without_a_place():
    pop = from_headers({"cf-ray": "8f00ba12cafe0001-QQQ"})
    assert pop is not None
    assert pop.place is None


@given(st.text(max_size=80))
def test_any_value_is_safe_to_show(value):
    for header in ("cf-ray", "x-amz-cf-pop", "x-served-by"):
        pop = from_headers({header: value})
        assert pop is None or pop.evidence.isprintable()
