# SPDX-License-Identifier: Apache-2.0
"""Quantities as text and back."""

from __future__ import annotations

import math

import hypothesis
import hypothesis.strategies as st
import pytest

from netdiag import units


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0.25, "0.25 ms"), (1.24, "1.2 ms"),
        (0, "0 ms"), (0.04, "40 µs"), (0.0999, "0.1 ms"), (0.4, "0.4 ms"), (9.96, "10 ms"), (447, "447 ms"),
        (999.4, "999 ms"), (999.6, "1.00 s"), (1240, "1.24 s"), (9994, "9.99 s"), (9996, "10.0 s"), (61400, "61.4 s"),
        (123456, "123 s"), (7_200_000, "2.0 h"), (-447, "-447 ms"), (None, "–"), (math.nan, "–"), (math.inf, "–"),
    ],
)  # fmt: skip
def test_durations(ms, text):
    assert units.format_ms(ms) == text
    if ms is not None:
        assert units.format_ns(ms * 1e6) == text


def test_an_unknown_duration_in_nanoseconds():
    assert units.format_ns(None) == "–"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1500, "1.50 kB"), (102_997, "103 kB"), (3.38e9, "3.38 GB"), (99_960, "100 kB"),
        (999_600, "1.00 MB"), (1e18, "1000 PB"), (None, "–"), (math.nan, "–"),
    ],
)  # fmt: skip
def test_sizes(size, text):
    assert units.format_bytes(size) == text
    assert units.format_rate(size) == (text if text == "–" else f"{text}/s")


@pytest.mark.parametrize(("value", "text"), [(102997, "102,997"), (0, "0"), (None, "–"), (math.nan, "–")])
def test_counts(value, text):
    assert units.format_count(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.12, "12 %"), (0.041, "4.1 %"), (0, "0 %"), (1, "100 %"), (None, "–")])
def test_shares(value, text):
    assert units.format_percent(value) == text


@pytest.mark.parametrize(
    ("text", "seconds"), [("10", 10), ("1.5s", 1.5), ("200 ms", 0.2), ("2min", 120), ("1h", 3600), ("5us", 5e-6)]
)
def test_durations_are_read(text, seconds):
    assert units.parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"), [("512", 512), ("64kB", 64_000), ("64 MB", 64_000_000), ("64MiB", 1 << 26), ("1.5k", 1500)]
)
def test_sizes_are_read(text, size):
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "ten", "-1", "1 fortnight", "1e9", "nan", "1iB"])
def test_other_words_are_refused(text):
    with pytest.raises(ValueError, match="write"):
        units.parse_seconds(text)
    with pytest.raises(ValueError, match="write"):
        units.parse_bytes(text)


@hypothesis.given(st.floats(min_value=1e-3, max_value=7e6))
def test_a_duration_keeps_its_size_in_text(ms):
    assert units.parse_seconds(units.format_ms(ms)) * 1e3 == pytest.approx(ms, rel=0.07)


def test_types_carry_units():
    assert [units.unit_of_type(name) for name in ("nd_ktime_ns", "nd_micros", "nd_addr", "__u32")] == [
        "instant", "us", "address", "count",
    ]  # fmt: skip
