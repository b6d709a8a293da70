# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag import values

UNKNOWN = [None, math.nan, math.inf, -math.inf, pd.NA, np.float64("nan")]


@pytest.mark.parametrize("convert", [values.to_text, values.to_int, values.to_ms, values.to_bool, values.instants(0)])
@pytest.mark.parametrize("cell", UNKNOWN)
def test_unknown_stays_unknown(convert, cell):
    assert convert(cell) is None


@pytest.mark.parametrize("convert", [values.to_int, values.to_ms, values.to_bool, values.instants(0)])
@pytest.mark.parametrize("cell", ["7", [], {}, object()])
def test_what_is_no_number_is_not_known(convert, cell):
    assert convert(cell) is None


def test_a_forged_clock_gives_an_instant_that_can_be_written():
    assert values.rfc3339(10**40) == "9999-12-31T23:59:59.000000000Z"
    assert values.rfc3339(-1) == "1970-01-01T00:00:00.000000000Z"


def test_known_zero_and_false_are_values():
    assert values.to_int(0.0) == 0
    assert values.to_ms(0.0) == 0.0
    assert values.to_bool(np.False_) is False
    assert values.to_text("") == ""


def test_instants_have_nine_digits_and_utc():
    assert values.rfc3339(0) == "1970-01-01T00:00:00.000000000Z"
    assert values.rfc3339(1_795_021_600_000_000_001) == "2026-11-18T17:06:40.000000001Z"
    assert values.instants(1_000_000_000)(1.5e9) == "1970-01-01T00:00:02.500000000Z"


@given(st.integers(0, 4_000_000_000_000_000_000), st.integers(0, 10**12))
def test_instants_sort_as_time_does(early, later):
    assert values.rfc3339(early) <= values.rfc3339(early + later)


def test_a_name_that_is_not_utf8_is_shown_by_its_bytes():
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert values.to_text(name) == "caf\\xe9"
    assert values.to_text("café") == "café"


@given(st.text(st.characters(codec=None, categories=["Cs", "L", "Cc"])))
def test_every_text_becomes_one_that_can_be_written(text):
    shown = values.to_text(text)
    assert shown is not None
    shown.encode("utf-8")
    assert values.to_text("a\ud800é\udcff") == "a\\ud800é\\xff"


def test_clean_leaves_only_json():
    dirty = {"a": math.nan, 1: (1, np.int64(2), np.float64(3.5)), "b": {"c": True, "d": object}}
    cleaned = values.clean(dirty)
    assert cleaned["a"] is None
    assert cleaned["1"] == [1, "2", 3.5]
    assert cleaned["b"]["c"] is True
    json.dumps(cleaned, allow_nan=False)


def test_cells_that_hold_no_list_or_object():
    assert values.to_texts(None) is None
    assert values.to_list(math.nan) == []
    assert values.to_texts(["a", None, "b"]) == ["a", "b"]
    assert values.to_object("x") is None
    assert values.to_object_or_empty(None) == {}
    assert values.to_mapping(3) == {}
    assert values.clean_list(None) == []


@given(st.text())
def test_json_has_nothing_a_terminal_obeys(text):
    shown = values.dumps(text)
    assert not any(ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 for letter in shown)
    assert json.loads(shown) == text


def test_json_refuses_nan():
    with pytest.raises(ValueError, match="Out of range"):
        values.dumps(math.nan)
