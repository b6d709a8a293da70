# SPDX-License-Identifier: Apache-2.0
"""What a retry policy does to a server in an outage: a simulation, the same for the same numbers. Pure.

Calls are a flow, not single ones: in each tenth of a second so many make their n-th attempt. A server does what its
capacity allows; above it, work is lost on attempts that fail anyway (`collapse`). Failed attempts come back after the
policy's pause, spread by its jitter, as far as the budget goes; a breaker lets all, a fifth or none of them through.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from netdiag.errors import UsageError

__all__ = ["Breaker", "Curve", "Load", "Policy", "Second", "read", "simulate"]

_STEPS = 10
"""A second."""
_RECOVERED, _STEADY_S = 0.95, 3
"""So many of the calls succeed, for so many seconds."""
_LONGEST_S = 3600.0
_JITTERS = ("full", "equal", "none")
_BUDGET_BURST_S = 10.0
"""A budget that was not used is kept for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Stops attempts while most fail. Closed lets 100 % through, open 0 %, half open a part, to see."""

    errors: float = 0.5
    """Share of failures from which it opens."""
    window_s: float = 5.0
    """Over so long."""
    open_s: float = 5.0
    half_open: float = 0.2
    """Share of attempts that pass while it is half open."""
    probe_s: float = 2.0
    """So long it stays half open before it decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a client asks again. Times in seconds."""

    attempts: int = 3
    """At most, the first one included."""
    base_s: float = 0.5
    """The first pause."""
    factor: float = 2.0
    """By how much each pause is longer than the one before."""
    cap_s: float = 8.0
    """The longest pause."""
    jitter: str | float = "full"
    """full: any time up to the pause; equal: from half of it; none; or a share by which it is longer or shorter."""
    budget: float | None = None
    """Retries as a share of first attempts; None = no budget."""
    breaker: Breaker | None = None

    def pause_s(self, attempt: int) -> float:
        """Return the pause behind an attempt (from 1), without jitter."""
        return min(self.cap_s, self.base_s * self.factor ** (attempt - 1))

    def spread_s(self, attempt: int) -> tuple[float, float]:
        """Return the shortest and the longest pause behind an attempt."""
        pause = self.pause_s(attempt)
        if isinstance(self.jitter, str):
            return {"full": (0.0, pause), "equal": (pause / 2, pause), "none": (pause, pause)}[self.jitter]
        return pause * (1 - self.jitter), pause * (1 + self.jitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What happens to the server."""

    calls_per_s: float = 100.0
    capacity_per_s: float = 130.0
    duration_s: float = 60.0
    outage_s: tuple[float, float] = (10.0, 20.0)
    """From when to when it does nothing, or what `outage_capacity_per_s` says."""
    outage_capacity_per_s: float = 0.0
    collapse: float = 1.0
    """0: what is too much is refused at no cost; 1: twice the load halves what is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """One second of the simulation; rates are per second."""

    at_s: int
    calls: float
    attempts: float
    """That reached the server."""
    succeeded: float
    failed: float
    """Calls that were given up."""
    passes: float
    """What the breaker let through, in the middle: 1, 0.2, 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The whole simulation and what to say of it."""

    policy: Policy
    load: Load
    seconds: tuple[Second, ...]
    amplification: float
    """Attempts per call."""
    peak: float
    """Most attempts in a second, per call in a second."""
    recovered_s: float | None
    """From the end of the outage until nearly all calls succeed again; None = not in the simulated time."""
    failed_share: float
    """Of all calls that ended."""


def read(table: Mapping[str, Any]) -> tuple[Policy, Load]:
    """Return policy and load of a parsed TOML file: tables `policy`, `policy.breaker` and `load`, all optional.

    UsageError says what is wrong.
    """
    unknown = sorted(set(table) - {"policy", "load"})
    if unknown:
        raise UsageError(f"a policy file has the tables policy and load, not {', '.join(unknown)}")
    told = dict(_table(table, "policy"))
    breaker = told.pop("breaker", None)
    if breaker is not None:
        if not isinstance(breaker, Mapping):
            raise UsageError("policy.breaker is no table")
        told["breaker"] = Breaker(**_numbers(Breaker, breaker, "policy.breaker"))
    jitter = told.pop("jitter", "full")
    if jitter not in _JITTERS and not (_is_number(jitter) and 0 <= jitter <= 1):
        raise UsageError(f"policy.jitter is {jitter!r}: one of {', '.join(_JITTERS)}, or a share from 0 to 1")
    made = told.pop("breaker", None)
    policy = Policy(**_numbers(Policy, told, "policy"), jitter=jitter, breaker=made)
    load_table = dict(_table(table, "load"))
    outage = load_table.pop("outage_s", [10.0, 20.0])
    if not (isinstance(outage, list) and len(outage) == 2 and all(map(_is_number, outage)) and outage[0] <= outage[1]):
        raise UsageError("load.outage_s is a list of two numbers, from and to")
    load = Load(**_numbers(Load, load_table, "load"), outage_s=(float(outage[0]), float(outage[1])))
    if not 1 <= load.duration_s <= _LONGEST_S or not 1 <= policy.attempts <= 100 or load.calls_per_s <= 0:
        raise UsageError("load.duration_s is from 1 to 3600, policy.attempts from 1 to 100, load.calls_per_s above 0")
    return policy, load


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, Mapping):
        raise UsageError(f"{name} is no table")
    return found


def _numbers(kind: type[Any], table: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = {entry.name for entry in fields(kind)}
    for name, value in table.items():
        if name not in known:
            raise UsageError(f"{where} has no {name}; it has {', '.join(sorted(known))}")
        if not _is_number(value) or value < 0:
            raise UsageError(f"{where}.{name} is {value!r}, no number from 0 on")
    if "attempts" in table and not isinstance(table["attempts"], int):
        raise UsageError(f"{where}.attempts is no whole number")
    return {name: value if name == "attempts" else float(value) for name, value in table.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# --- the course of it -----------------------------------------------------------------------------------------------


def simulate(policy: Policy, load: Load) -> Curve:
    """Return what happens, second by second."""
    steps = round(load.duration_s * _STEPS)
    flow = _Flow(policy, load, steps)
    for step in range(steps):
        flow.advance(step)
    return flow.curve()


class _Flow:
    def __init__(self, policy: Policy, load: Load, steps: int) -> None:
        self._policy, self._load = policy, load
        self._due = [[0.0] * (policy.attempts + 1) for _ in range(steps + 1)]
        """Step → attempt → how many."""
        self._tokens = 0.0
        self._gate = _Gate(policy.breaker) if policy.breaker else None
        self._rows: list[tuple[float, float, float, float, float]] = []

    def advance(self, step: int) -> None:
        calls = self._load.calls_per_s / _STEPS
        due = self._due[step]
        due[1] += calls
        passes = self._gate.passes(step) if self._gate else 1.0
        reached = [count * passes for count in due]
        attempts = sum(reached)
        share = self._done(step, attempts) / attempts if attempts else 0.0
        if self._gate:
            self._gate.note(step, attempts, attempts * share)
        failed = 0.0
        if self._policy.budget is not None:
            most = self._policy.budget * self._load.calls_per_s * _BUDGET_BURST_S
            self._tokens = min(most, self._tokens + self._policy.budget * calls)
        for attempt in range(1, len(due)):
            lost = due[attempt] - reached[attempt] * share
            failed += lost - self._again(step, attempt, lost)
        self._rows.append((calls, attempts, attempts * share, failed, passes))

    def _done(self, step: int, attempts: float) -> float:
        start, end = self._load.outage_s
        out = start * _STEPS <= step < end * _STEPS
        capacity = (self._load.outage_capacity_per_s if out else self._load.capacity_per_s) / _STEPS
        if attempts <= capacity:
            return attempts
        return float(capacity * (capacity / attempts) ** self._load.collapse)

    def _again(self, step: int, attempt: int, lost: float) -> float:
        """Plan the next attempt of calls that failed; return how many there are."""
        if attempt >= self._policy.attempts or lost <= 0:
            return 0.0
        granted = lost
        if self._policy.budget is not None:
            granted = min(lost, self._tokens)
            self._tokens -= granted
        low, high = self._policy.spread_s(attempt)
        first, last = step + max(1, round(low * _STEPS)), step + max(1, round(high * _STEPS))
        each = granted / (last - first + 1)
        for at in range(first, last + 1):
            if at < len(self._due):
                self._due[at][attempt + 1] += each
        return granted

    def curve(self) -> Curve:
        seconds = []
        for at in range(0, len(self._rows) - _STEPS + 1, _STEPS):
            part = self._rows[at : at + _STEPS]
            calls, attempts, succeeded, failed = (sum(row[column] for row in part) for column in range(4))
            passes = sorted(row[4] for row in part)[_STEPS // 2]
            seconds.append(
                Second(
                    at_s=at // _STEPS,
                    calls=calls,
                    attempts=attempts,
                    succeeded=succeeded,
                    failed=failed,
                    passes=passes,
                )
            )
        calls, attempts, succeeded, failed = (sum(row[column] for row in self._rows) for column in range(4))
        return Curve(
            policy=self._policy,
            load=self._load,
            seconds=tuple(seconds),
            amplification=attempts / calls,
            peak=max(second.attempts for second in seconds) / self._load.calls_per_s,
            recovered_s=self._recovered(seconds),
            failed_share=failed / (failed + succeeded) if failed + succeeded else 0.0,
        )

    def _recovered(self, seconds: list[Second]) -> float | None:
        start = math.ceil(self._load.outage_s[1])
        good = [second.succeeded >= _RECOVERED * second.calls for second in seconds]
        for at in range(start, len(good) - _STEADY_S + 1):
            if all(good[at : at + _STEADY_S]):
                return float(at - start)
        return None


class _Gate:
    """The breaker's state: closed, open, half open."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker
        self._state, self._since = "closed", 0
        self._seen: list[tuple[float, float]] = []

    def passes(self, step: int) -> float:
        age = (step - self._since) / _STEPS
        if self._state == "open" and age >= self._breaker.open_s:
            self._become("half-open", step)
        return {"closed": 1.0, "open": 0.0, "half-open": self._breaker.half_open}[self._state]

    def note(self, step: int, attempts: float, succeeded: float) -> None:
        self._seen.append((attempts, succeeded))
        span = self._breaker.probe_s if self._state == "half-open" else self._breaker.window_s
        if self._state == "open" or len(self._seen) < max(1, round(span * _STEPS)):
            return
        part = self._seen[-round(span * _STEPS) :]
        total, good = sum(each[0] for each in part), sum(each[1] for each in part)
        bad = total > 0 and 1 - good / total >= self._breaker.errors
        if self._state == "closed" and bad:
            self._become("open", step)
        elif self._state == "half-open":
            self._become("open" if bad else "closed", step)

    def _become(self, state: str, step: int) -> None:
        self._state, self._since, self._seen = state, step, []
