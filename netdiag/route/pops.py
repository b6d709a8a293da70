# SPDX-License-Identifier: Apache-2.0
"""Which point of presence to use: the decision table as a pure state machine. The clock is an argument.

Isolate is stronger than demote, demote than enabling a neighbour; the last one in service is never isolated. Limits
are strict: exactly 120 ms, 3 % or 85 % trigger nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from netdiag.route import loss

__all__ = ["Action", "Decision", "State", "Window", "decide", "score"]

DEMOTE_MS, RESTORE_MS, CALM_WINDOWS, LEAST_ATTEMPTS = 120.0, 90.0, 3, 10
LOSS_SHARE, ISOLATE_S, PROBATION = 0.03, 300.0, 20
LOAD_PERCENT, RELAX_PERCENT = 85.0, 70.0
_LEAST_FLOWS = 2


class Action(StrEnum):
    """What to do with a point of presence."""

    PREFER = "prefer"
    KEEP = "keep"
    DEMOTE = "demote"
    ISOLATE = "isolate"
    ENABLE_NEIGHBOUR = "enable-neighbour"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What the last look at one point of presence showed."""

    median_ms: float | None
    p95_ms: float | None = None
    n: int = 0
    """Round trips behind the median."""
    baseline_ms: float | None = None
    lost: int = 0
    sent: int = 0
    """Attempts to connect, lost ones included; hops on the way do not count."""
    flows: int = 0
    """Source ports among them."""
    load_percent: float | None = None
    """As the operator says; it cannot be seen from outside."""
    at_home: bool | None = None
    """Whether it is in the client's own region; None: one of the two is not known."""

    @property
    def deviation_ms(self) -> float | None:
        """Return median less baseline."""
        if self.median_ms is None or self.baseline_ms is None:
            return None
        return self.median_ms - self.baseline_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is remembered of one point of presence between looks."""

    demoted: bool = False
    calm: int = 0
    """Windows in a row under the limit that lifts a demotion."""
    isolated_until_s: float | None = None
    """On the caller's monotonic clock; None: in service."""
    proven: int = 0
    """Successful attempts in a row since the isolation's time was over (half-open)."""
    neighbour: bool = False
    """A neighbour was enabled for it."""

    def half_open(self, now_s: float) -> bool:
        """Tell whether its isolation is over but not yet proven needless."""
        return self.isolated_until_s is not None and now_s >= self.isolated_until_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do with one point of presence now, and why."""

    action: Action
    why: str
    until_s: float | None = None
    """End of an isolation on the caller's clock."""


@dataclass(slots=True)
class _Wish:
    """A point of presence that should be isolated."""

    key: str
    low: float
    why: str = field(default="")


def decide(
    states: Mapping[str, State], windows: Mapping[str, Window], now_s: float, *, by_load: bool = False
) -> tuple[dict[str, State], dict[str, Decision]]:
    """Return the new states and a decision for each point of presence that was looked at."""
    held = {key: _soft(states.get(key, State()), window) for key, window in windows.items()}
    held = {key: _half_open(state, windows[key], now_s) for key, state in held.items()}
    wishes = sorted(
        (wish for key in windows if (wish := _wish(key, held[key], windows[key]))), key=lambda one: -one.low
    )
    spared: dict[str, str] = {}
    for wish in wishes:
        serving = [key for key, state in held.items() if state.isolated_until_s is None and key != wish.key]
        if serving:
            held[wish.key] = replace(held[wish.key], isolated_until_s=now_s + ISOLATE_S, proven=0)
        else:
            spared[wish.key] = f"{wish.why}, but it is the last one"
    held = _never_none(held, windows)
    best = _best(held, windows, by_load=by_load)
    decisions = {
        key: _say(state, windows[key], now_s, spared.get(key), best=key == best) for key, state in held.items()
    }
    return held, decisions


def score(window: Window, *, by_load: bool = False) -> float | None:
    """Return the cost of using it, in ms; None: nothing was measured.

    Median, half of what the 95th percentile lies above it, and a second for every attempt in a hundred that is surely
    lost; `by_load`: median × (1 + load/100), an unknown load counting as none. Those in the client's region are
    compared with each other; one outside it is preferred only where there is none.
    """
    if window.median_ms is None:
        return None
    if by_load:
        return window.median_ms * (1 + (window.load_percent or 0.0) / 100)
    spread = max(0.0, (window.p95_ms or window.median_ms) - window.median_ms)
    surely = loss.lower(window.lost, window.sent) if window.sent else 0.0
    return window.median_ms + 0.5 * spread + 1000.0 * surely


def _soft(state: State, window: Window) -> State:
    """Apply the rules of round trip and load, with their hysteresis."""
    deviation, demoted, calm = window.deviation_ms, state.demoted, state.calm
    if deviation is not None and window.n >= LEAST_ATTEMPTS:
        if deviation > DEMOTE_MS:
            demoted, calm = True, 0
        else:
            calm = calm + 1 if deviation < RESTORE_MS else 0
            demoted = demoted and calm < CALM_WINDOWS
    neighbour = state.neighbour
    if window.load_percent is not None:
        neighbour = window.load_percent > LOAD_PERCENT or (neighbour and window.load_percent >= RELAX_PERCENT)
    return replace(state, demoted=demoted, calm=calm if demoted else 0, neighbour=neighbour)


def _half_open(state: State, window: Window, now_s: float) -> State:
    """Prove or disprove an isolation whose time is over: 20 attempts without one failure end it."""
    if not state.half_open(now_s):
        return state
    if window.lost:
        return replace(state, isolated_until_s=now_s + ISOLATE_S, proven=0)
    proven = state.proven + window.sent
    return replace(state, isolated_until_s=None, proven=0) if proven >= PROBATION else replace(state, proven=proven)


def _wish(key: str, state: State, window: Window) -> _Wish | None:
    if state.isolated_until_s is not None or not window.sent or window.flows < _LEAST_FLOWS:
        return None
    low = loss.lower(window.lost, window.sent)
    if window.lost / window.sent <= LOSS_SHARE or low <= LOSS_SHARE:
        return None
    return _Wish(key=key, low=low, why=f"lost {window.lost}/{window.sent}, surely more than {low * 100:.1f} %")


def _never_none(held: Mapping[str, State], windows: Mapping[str, Window]) -> dict[str, State]:
    """Take the least bad one back into service where those in service have vanished."""
    if not held or any(state.isolated_until_s is None for state in held.values()):
        return dict(held)

    def badness(key: str) -> tuple[float, float, str]:
        window = windows[key]
        share = window.lost / window.sent if window.sent else 1.0
        return share, window.median_ms if window.median_ms is not None else 1e9, key

    rescued = min(held, key=badness)
    return {**held, rescued: replace(held[rescued], isolated_until_s=None, proven=0)}


def _best(held: Mapping[str, State], windows: Mapping[str, Window], *, by_load: bool) -> str | None:
    scored: Sequence[tuple[bool, bool, float, str]] = [
        (state.demoted, by_load and windows[key].at_home is False, value, key)
        for key, state in held.items()
        if state.isolated_until_s is None and (value := score(windows[key], by_load=by_load)) is not None
    ]
    return min(scored)[3] if scored else None


def _say(state: State, window: Window, now_s: float, spared: str | None, *, best: bool) -> Decision:
    if state.isolated_until_s is not None:
        half = f"half-open: {state.proven} of {PROBATION} attempts without a failure"
        open_now = state.half_open(now_s)
        until = None if open_now else state.isolated_until_s
        return Decision(action=Action.ISOLATE, why=half if open_now else _losses(window), until_s=until)
    if spared:
        return Decision(action=Action.KEEP, why=spared)
    if state.demoted:
        return Decision(action=Action.DEMOTE, why=_deviates(window))
    if state.neighbour:
        return Decision(action=Action.ENABLE_NEIGHBOUR, why=_loaded(window))
    if best:
        return Decision(action=Action.PREFER, why="lowest score")
    return Decision(action=Action.KEEP, why="within the limits" if window.n else "nothing measured")


def _losses(window: Window) -> str:
    return f"lost {window.lost}/{window.sent} (rule: surely > 3 %)" if window.lost else "isolated for loss seen before"


def _deviates(window: Window) -> str:
    if window.deviation_ms is None or window.deviation_ms <= DEMOTE_MS:
        return "was over the limit; three calm windows lift it"
    return f"{window.deviation_ms:.0f} ms over the baseline (rule: > 120 ms)"


def _loaded(window: Window) -> str:
    return "load was over 85 %" if window.load_percent is None else f"load {window.load_percent:.0f} % (rule: > 85 %)"
