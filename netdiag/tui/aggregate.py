# SPDX-License-Identifier: Apache-2.0
"""From columns to the figures of the overview. Pure; the definitions are those of the report's summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netdiag.tui.columns import PARTS, Calls, Ends, Floats, Ints
from netdiag.tui.model import Figures, Rate, Row

__all__ = ["RATE_S", "bins", "figures", "rates", "rows"]

RATE_S = 10.0
"""A rate of now is that of so many seconds."""
_SHARES = (0.5, 0.95, 0.99)


def rows(calls: Calls, ends: Ends, programs: Mapping[int, str], now_ns: float, *, live: bool) -> tuple[Row, ...]:
    """Return a row for each process and host, the one whose requests took most time first."""
    names, of_call, of_end = _groups(calls, ends)
    mine = _split(of_call, len(names))
    theirs = _split(of_end, len(names))
    found = [
        Row(
            pid=None if pid < 0 else pid,
            program=programs.get(pid),
            host=host,
            figures=figures(calls.take(mine[at]), ends.take(theirs[at]), now_ns, hosts=1, live=live),
        )
        for at, (pid, host) in enumerate(names)
    ]
    found.sort(key=lambda row: (-row.figures.time_ms, -row.figures.connections, str(row.host), row.pid or 0))
    return tuple(found)


def figures(calls: Calls, ends: Ends, now_ns: float, *, hosts: int | None = None, live: bool) -> Figures:
    """Return counts, shares and percentiles; `hosts` None = as many as the calls name.

    Rates are of the last seconds where the recording is `live`, else over all of it.
    """
    hosts = len(set(calls.host)) if hosts is None else hosts
    span_s = max(now_ns / 1e9, 1e-9)
    since = now_ns - RATE_S * 1e9 if live else -np.inf
    window = min(RATE_S, span_s) if live else span_s
    timed = ~np.isnan(calls.total_ms)
    sums = {
        name: float(np.nansum(calls.parts[timed, at]))
        for at, name in enumerate(PARTS)
        if np.any(~np.isnan(calls.parts[timed, at]))
    }
    known = len(calls) or not len(ends)
    return Figures(
        requests=len(calls) if known else None,
        connections=int(ends.established.sum()),
        requests_s=float(np.sum(calls.ended_ns > since)) / window if known else None,
        connections_s=float(np.sum(ends.opened_ns > since)) / window,
        reuse=_share(calls.reused, hosts),
        resumption=_share(ends.resumed, hosts),
        wait_ms=percentiles(calls.wait_ms),
        first_token_ms=percentiles(calls.first_token_ms),
        errors=_count(calls.failed),
        retries=_count(calls.retried),
        failed_connections=int(ends.failed.sum()),
        time_ms=float(np.nansum(calls.total_ms)),
        parts=sums,
    )


def percentiles(values: Floats) -> tuple[float | None, float | None, float | None]:
    """Return p50, p95 and p99 of what is known, linear between neighbours."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None, None, None
    p50, p95, p99 = np.quantile(known, _SHARES)
    return float(p50), float(p95), float(p99)


def rates(calls: Calls, ends: Ends, now_ns: float, steps: int, *, live: bool) -> tuple[tuple[Rate, ...], float]:
    """Return what the sparklines show, and how many seconds a step is: one where it is live, else a part of all."""
    step_ns = 1e9 if live else max(now_ns / steps, 1e6)
    asked, opened = bins(calls.ended_ns, now_ns, steps, step_ns), bins(ends.opened_ns, now_ns, steps, step_ns)
    wrong = bins(calls.ended_ns[calls.failed == 1], now_ns, steps, step_ns)
    each = step_ns / 1e9
    slow = _quantiles(calls, now_ns, steps, step_ns)
    known = bool(len(calls)) or not len(ends)
    return (
        Rate(
            name="requests", unit="/s", now=_now(asked, each, live=live) if known else None, history=_over(asked, each)
        ),
        Rate(name="connections", unit="/s", now=_now(opened, each, live=live), history=_over(opened, each)),
        Rate(name="wait p95", unit="ms", now=percentiles(calls.wait_ms)[1], history=slow),
        Rate(
            name="errors",
            unit="/s",
            now=None if _count(calls.failed) is None else _now(wrong, each, live=live),
            history=_over(wrong, each),
        ),
    ), each


def bins(at_ns: Floats, now_ns: float, steps: int, step_ns: float) -> Ints:
    """Return how many of the instants lie in each of the last steps, oldest first."""
    where = steps - 1 - np.floor((now_ns - at_ns[~np.isnan(at_ns)]) / step_ns).astype(np.int64)
    where = np.minimum(where, steps - 1)
    return np.bincount(where[where >= 0], minlength=steps)


def _quantiles(calls: Calls, now_ns: float, steps: int, step_ns: float) -> tuple[float | None, ...]:
    known = ~np.isnan(calls.wait_ms) & ~np.isnan(calls.ended_ns)
    values = calls.wait_ms[known]
    where = steps - 1 - np.floor((now_ns - calls.ended_ns[known]) / step_ns).astype(np.int64)
    where = np.minimum(where, steps - 1)
    order = np.lexsort((values, where))
    order = order[where[order] >= 0]
    steps_of, values = where[order], values[order]
    first = np.searchsorted(steps_of, np.arange(steps))
    last = np.searchsorted(steps_of, np.arange(steps), side="right")
    return tuple(
        None if high <= low else float(values[low + round(0.95 * (high - low - 1))])
        for low, high in zip(first, last, strict=True)
    )


def _over(counts: Ints, each: float) -> tuple[float | None, ...]:
    return tuple(float(one) / each for one in counts)


def _now(counts: Ints, each: float, *, live: bool) -> float:
    newest = counts[-int(RATE_S) :] if live else counts
    return float(newest.sum()) / (len(newest) * each)


def _share(flags: Floats, hosts: int) -> float | None:
    """Return how many of those that could be, were: the first one to each host could not."""
    known = flags[~np.isnan(flags)]
    possible = len(known) - hosts
    return min(1.0, float(known.sum()) / possible) if possible > 0 else None


def _count(flags: Floats) -> int | None:
    known = flags[~np.isnan(flags)]
    return int(known.sum()) if len(known) or not len(flags) else None


def _groups(calls: Calls, ends: Ends) -> tuple[list[tuple[int, str | None]], Ints, Ints]:
    """Return pid and host of each group, and the group of each call and of each connection."""
    numbers: dict[Any, int] = {}
    coded = np.array([numbers.setdefault(one, len(numbers)) for one in (*calls.host, *ends.host)], np.int64)
    hosts = list(numbers)
    pids = np.concatenate([calls.pid, ends.pid])
    pair, where = np.unique((pids + 1) * max(len(hosts), 1) + coded, return_inverse=True)
    names = [(int(one) // len(hosts) - 1, hosts[int(one) % len(hosts)]) for one in pair]
    return names, where[: len(calls)], where[len(calls) :]


def _split(groups: Ints, count: int) -> list[Ints]:
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.searchsorted(groups[order], np.arange(1, count))) if count else []
