# SPDX-License-Identifier: Apache-2.0
"""The figures of a scenario: counts in bins 2 % wide, which add up over traces; percentiles stay within 1 %."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netdiag.compare.samples import METRICS, Sample, asked, groups_of
from netdiag.compare.statistics import Values, quantile
from netdiag.tables import Tables

__all__ = ["DIMENSIONS", "Figures", "Scenario", "hour_of", "learn", "to_sample"]

DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "network": ("dns_ms", "connect_ms", "tls_ms", "send_ms"),
    "api": ("total_ms",),
    "service": ("wait_ms",),
}
"""What each dimension adds up: the way to the server, the whole call, the server until its first byte."""

_STEP = math.log(1.02)
_LEAST_MS = 1e-3
_MOST = 50_000
_HOUR_NS = 3_600_000_000_000
_POPS = (("cf-ray", re.compile(r"-([A-Z]{3})$")), ("x-amz-cf-pop", re.compile(r"^([A-Z]{3})\d")))
"""Headers of answers that name the place which answered, and where in them it stands."""


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Scenario:
    """Which calls: those to a host, of a model, streamed or not, answered from a place. Empty: not known."""

    host: str
    model: str = ""
    stream: bool = False
    region: str = ""


@dataclass(slots=True, kw_only=True)
class Figures:
    """Counts of one dimension of a scenario."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    bins: dict[int, int] = field(default_factory=dict)
    """Number of the bin → values; bin k holds those from 1.02^k µs on."""

    @classmethod
    def of(cls, values: Values) -> Figures:
        """Return the figures of these milliseconds."""
        places = np.floor(np.log(np.maximum(values, _LEAST_MS) / _LEAST_MS) / _STEP).astype(np.int64)
        numbers, counts = np.unique(places, return_counts=True)
        return cls(
            n=len(values),
            total=float(values.sum()),
            squares=float((values * values).sum()),
            bins=dict(zip(numbers.tolist(), counts.tolist(), strict=True)),
        )

    def add(self, other: Figures) -> None:
        """Take the values of the other, too."""
        self.n, self.total, self.squares = self.n + other.n, self.total + other.total, self.squares + other.squares
        for place, count in other.bins.items():
            self.bins[place] = self.bins.get(place, 0) + count

    @property
    def mean(self) -> float | None:
        """The mean, exact; None of no values."""
        return self.total / self.n if self.n else None

    @property
    def jitter(self) -> float | None:
        """σ/μ, exact; None of fewer than two values."""
        mean = self.mean
        if mean is None or mean <= 0 or self.n < 2:
            return None
        return math.sqrt(max(self.squares / self.n - mean * mean, 0.0)) / mean

    def percentile(self, share: float) -> float | None:
        """Return a percentile as the summary defines it, within 1 %; None of no values."""
        return quantile(self.spread(_MOST), share) if self.n else None

    def spread(self, most: int) -> Values:
        """Return values in place of those that were counted, sorted, at most so many."""
        places = np.array(sorted(self.bins), np.float64)
        counts = np.array([self.bins[int(place)] for place in places], np.int64)
        middles: Values = np.where(places > 0, _LEAST_MS * np.exp((places + 0.5) * _STEP), 0.0)
        if self.n > most:
            ranks = np.linspace(0, self.n - 1, most).astype(np.int64)
            return middles[np.searchsorted(np.cumsum(counts), ranks, "right")]
        return np.repeat(middles, counts)


def hour_of(realtime_ns: int) -> int:
    """Return the hour of the day in UTC."""
    return realtime_ns // _HOUR_NS % 24


def learn(tables: Tables, base_ns: int) -> dict[tuple[Scenario, int, str], Figures]:
    """Return what a recording teaches: scenario, hour of the day (UTC), dimension → figures."""
    requests = asked(tables)
    frame = requests.assign(
        host=groups_of(tables, requests, "host"),
        model=requests["model"].fillna(""),
        stream=[isinstance(cell, Mapping) for cell in requests["stream"].tolist()],
        region=[_region(cell) for cell in requests["headers"].tolist()],
        # where a call's start was not seen, the hour is that of the recording
        hour=[hour_of(base_ns + (0 if math.isnan(at) else round(at))) for at in requests["started_ns"].tolist()],
    )
    found = {}
    for key, rows in frame.dropna(subset=["host"]).groupby(["host", "model", "stream", "region", "hour"], sort=True):
        host, model, stream, region, hour = tuple(key)
        scenario = Scenario(host=str(host), model=str(model), stream=bool(stream), region=str(region))
        for dimension, columns in DIMENSIONS.items():
            parts = rows[list(columns)].to_numpy(np.float64)
            known = np.isfinite(parts).any(axis=1)
            if known.any():
                found[scenario, int(str(hour)), dimension] = Figures.of(np.nansum(parts[known], axis=1))
    return found


def _region(headers: Any) -> str:
    if not isinstance(headers, Mapping):
        return ""
    for name, shape in _POPS:
        match = shape.search(str(headers.get(name, "")))
        if match:
            return match[1]
    return ""


def to_sample(figures: Iterable[tuple[str, Figures]], name: str) -> Sample:
    """Return a baseline, given as (dimension, figures), as one side of a comparison."""
    api, service = Figures(), Figures()
    for dimension, one in figures:
        if dimension in {"api", "service"}:
            (api if dimension == "api" else service).add(one)
    none: Values = np.array([], np.float64)
    values = {metric: none for metric, _ in METRICS}
    values |= {"total": api.spread(_MOST), "server": service.spread(_MOST)}
    return Sample(name=name, kind="baseline", requests=api.n, values=values, shares={}, causes=None)
