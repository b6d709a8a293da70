# SPDX-License-Identifier: Apache-2.0
"""Attempts that failed and were made again: what they cost, whether they wait as asked, whether they make it worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds, price
from netdiag.analysis.calls import Attempt, Call, Gap, amplification, beat_apart, calls_of
from netdiag.analysis.case import Case, Group
from netdiag.analysis.http_calls import Asked, examples
from netdiag.analysis.links import Link, known
from netdiag.analysis.pricing import grade
from netdiag.analysis.retry_policy import Policy, learn
from netdiag.analysis.rounds import doubtful, rounds_apart
from netdiag.findings import Finding, Learned, Severity

__all__ = ["analyze"]

_RATE_LIMITED = 429.0
_AHEAD_MS, _AHEAD = 30.0, 0.02
"""A timer is a little early against a clock that counts from the first byte of the answer."""
_NO_PAUSE_MS = 50.0
_REPEATED = 2
"""One failure that a second attempt mended is what attempts are for."""
_DOUBT = 0.5
_STORM = 5
_HASTY = 3
"""So many attempts of one call without a pause are no policy."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""May be sent twice: RFC 9110 section 9.2.2."""
_QUOTA = 6
_WINDOWS = 3
_MANY = 20
_TOGETHER_MS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """The logical calls of one program to one host."""

    group: Group
    calls: tuple[Call, ...]

    @property
    def repeated(self) -> list[Call]:
        return [call for call in self.calls if len(call.attempts) > 1]

    @property
    def gaps(self) -> list[Gap]:
        return [gap for call in self.calls for gap in call.gaps]

    @property
    def count(self) -> int:
        """Requests."""
        return sum(len(call.attempts) for call in self.calls)


def analyze(case: Case) -> list[Finding]:
    """Return one finding per code and group."""
    found: list[Seen | None] = []
    every = []
    for group in case.groups:
        calls = calls_of(case.asked_by(group))
        found.append(_ignored(_Calls(group=group, calls=calls)))  # the next call has to wait as the next attempt has
        every.append(_Calls(group=group, calls=rounds_apart(beat_apart(calls))))
    for each in every:
        policy = learn(each.repeated)
        found += [_rate_limited(each), _storm(each, policy), _quota(each), _attempts(each, policy), _replayed(each)]
    pauses = sum(gap.ms for each in every for gap in each.gaps)
    found += _no_jitter(every)
    return [finding(case, _priced(case, seen, pauses)) for seen in found if seen is not None]


def _priced(case: Case, seen: Seen, pauses: float) -> Seen:
    """Return the finding graded against the time of requests and the pauses between attempts, which it is part of."""
    total = case.total_ms + pauses
    if not known(seen.cost_ms) or not known(total):
        return seen
    graded = grade(cost_ms=seen.cost_ms, total_ms=total, calls=seen.calls, breaks=seen.breaks)
    words = {**seen.words, "price": price(seen.cost_ms, total)}
    return replace(seen, words=words, severity=seen.severity or graded)


def _seen(each: _Calls, code: str, shown: Sequence[tuple[Asked, str]], of: int, **more: object) -> Seen:
    links = {asked.link.row: asked.link for asked, _ in shown}
    base = Seen(
        code=code,
        links=tuple(sorted(links.values(), key=_row)),
        count=len(shown),
        of=of,
        confidence=0.9 if all(asked.exact for asked, _ in shown) else 0.7,
        calls=float(max(len(each.calls), 1)),
        examples=examples(shown),
        host=each.group.host,
        process=each.group.process,
    )
    return replace(base, **more)  # type: ignore[arg-type]


def _row(link: Link) -> int:
    return link.row


# --- limits of the server -----------------------------------------------------------------------------------------


def _rate_limited(each: _Calls) -> Seen | None:
    """Answers with status 429; the pauses until the next attempts are part of the price."""
    limited = [(a, gap) for call in each.calls for a, gap in zip(call.attempts, (*call.gaps, None), strict=True)
               if a.asked.status == _RATE_LIMITED]  # fmt: skip
    if not limited:
        return None
    waited = [gap.ms for _, gap in limited if gap is not None]
    asked_for = [gap.asked_ms for _, gap in limited if gap is not None and known(gap.asked_ms)]
    told = f"the server asked for pauses of {milliseconds(median(asked_for))}" if asked_for else ""
    return _seen(
        each,
        "http.rate-limited",
        [(a.asked, "status 429" + (f", {_after(a.asked)}" if _after(a.asked) else "")) for a, _ in limited],
        of=each.count,
        cost_ms=sum(a.took_ms for a, _ in limited if known(a.took_ms)) + sum(waited),
        note=told,
        breaks=len(limited) >= 2,
        ceiling=None if len(limited) >= 2 else Severity.INFO,
    )


def _after(asked: Asked) -> str:
    value = asked.headers.get("retry-after")
    return f"retry-after {value}" if value else ""


def _ignored(each: _Calls) -> Seen | None:
    """Attempts that came earlier than the server had asked for."""
    asked = [gap for gap in each.gaps if known(gap.asked_ms)]
    early = [gap for gap in asked if gap.ms < gap.asked_ms - max(_AHEAD_MS, _AHEAD * gap.asked_ms)]
    if not early:
        return None
    pause, wish = milliseconds(median(gap.ms for gap in early)), milliseconds(median(gap.asked_ms for gap in early))
    return _seen(
        each,
        "retry.after-ignored",
        [(g.after.asked, f"{milliseconds(g.ms)} later, {milliseconds(g.asked_ms)} were asked for") for g in early],
        of=len(asked),
        note=f"after {pause}, where {wish} were asked for",
        words={"early": pause, "asked": wish},
        severity=Severity.WARNING if len(early) >= 2 else Severity.INFO,
    )


def _quota(each: _Calls) -> Seen | None:
    """429 to the end, again and again, and never a success: no pause helps against a quota that is used up."""
    answered = [a for call in each.calls for a in call.attempts if known(a.asked.status)]
    lost = [call for call in each.repeated if all(a.asked.status == _RATE_LIMITED for a in call.attempts)]
    limited = [a for call in lost for a in call.attempts]
    if len(limited) < _QUOTA or any(a.asked.status < 400 for a in answered):
        return None
    return _seen(
        each,
        "retry.quota",
        [(a.asked, "status 429") for a in limited],
        of=len(answered),
        cost_ms=sum(call.wasted_ms for call in lost),
        note=f"{len(lost)} calls, {len(limited)} attempts, no success in the whole run",
        confidence=0.5 if doubtful(lost) else 0.75,
        breaks=True,
        ceiling=Severity.INFO if doubtful(lost) else None,  # a few calls within one window of a limit look the same
    )


# --- attempts -----------------------------------------------------------------------------------------------------


def _attempts(each: _Calls, policy: Policy) -> Seen | None:
    """Calls that needed more than one attempt."""
    again = each.repeated
    if not again:
        return None
    failed = [a for call in again for a in call.attempts[:-1]]
    kinds = Counter(a.what for a in failed)
    said = ", ".join(f"{count} × {what}" for what, count in kinds.most_common(3))
    factor = amplification(each.calls)
    return _seen(
        each,
        "retry.attempts",
        [(a.asked, f"{a.what}, again {milliseconds(_gap_after(again, a))} later") for a in failed],
        of=each.count,
        cost_ms=sum(call.wasted_ms for call in again),
        learned=_base(policy),
        note=f"{each.count} attempts for {_calls_said(len(each.calls))} (× {factor:.2g}); {policy.words()}"
        + ("; calls that are made at this beat would look the same" if doubtful(again) else ""),
        ceiling=Severity.INFO if len(failed) < _REPEATED else Severity.WARNING if doubtful(again) else None,
        **({"confidence": _DOUBT} if doubtful(again) else {}),
        words={"calls": _calls_said(len(again)), "kinds": said, "policy": policy.words(), "factor": f"{factor:.2g}"},
    )


def _calls_said(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"


def _gap_after(calls: Sequence[Call], attempt: Attempt) -> float:
    return next(gap.ms for call in calls for gap in call.gaps if gap.before is attempt)


def _base(policy: Policy) -> Learned | None:
    if not known(policy.base_ms):
        return None
    value = policy.base_ms / 1e3
    spread = policy.jitter * value if known(policy.jitter) else 0.0
    return Learned(name="first_pause", value=value, low=value - spread, high=value + spread, unit="s")


def _storm(each: _Calls, policy: Policy) -> Seen | None:
    """Attempts without a pause, or attempts that grow in number while successes become fewer."""
    hasty = [gap for call in each.calls for gap in _hasty(call)]
    long_call = max((len(call.attempts) for call in each.calls), default=0)
    growing = _growing(each)
    if len(hasty) >= _STORM and len(hasty) >= 0.5 * len(each.gaps):
        cause, shown = (
            "no-pause",
            [(g.after.asked, f"attempt {g.index + 1}, {milliseconds(g.ms)} later") for g in hasty],
        )
        note = f"{len(hasty)} of {len(each.gaps)} attempts came within {milliseconds(max(g.ms for g in hasty))}"
    elif growing:
        cause, note = "growing", growing
        shown = [(g.after.asked, f"attempt {g.index + 1}") for g in each.gaps]
    elif nested := _nested(each):
        cause, note = "nested", nested
        shown = [(g.after.asked, f"attempt {g.index + 1}, {milliseconds(g.ms)} later") for g in each.gaps]
    else:
        return None
    factor = amplification(each.calls)
    return _seen(
        each,
        "retry.storm",
        shown,
        of=each.count,
        cause=cause,
        note=f"{note}; up to {long_call} attempts a call, × {factor:.2g} in all",
        words={"factor": f"{factor:.2g}", "calls": str(len(each.calls)), "most": str(long_call), "why": note},
        breaks=True,
        learned=Learned(name="amplification", value=factor, low=factor, high=factor, unit="attempts per call"),
    )


def _hasty(call: Call) -> list[Gap]:
    """Return the pauses of a call that are none, where there are several: some clients make one attempt at once."""
    found = [gap for gap in call.gaps if gap.ms < max(_NO_PAUSE_MS, 2 * _round_trip(gap))]
    return found if len(found) >= _HASTY else []


def _round_trip(gap: Gap) -> float:
    link = gap.after.asked.link
    return link.min_rtt_ms if known(link.min_rtt_ms) else 0.0


def _growing(each: _Calls) -> str | None:
    """Tell whether attempts per call rose to twice what they were while the share of successes fell by half."""
    if each.count < _MANY or len(each.calls) < 3 * _WINDOWS:
        return None
    size = len(each.calls) // _WINDOWS
    first, last = each.calls[:size], each.calls[-size:]
    rates = [sum(call.succeeded for call in part) / sum(len(call.attempts) for call in part) for part in (first, last)]
    sizes = [amplification(part) for part in (first, last)]
    if sizes[1] < 2 * sizes[0] or sizes[1] < 3 or rates[1] > 0.5 * rates[0]:
        return None
    fell = f"successes fell from {rates[0]:.0%} to {rates[1]:.0%}"
    return f"attempts a call grew from {sizes[0]:.1f} to {sizes[1]:.1f}, {fell}"


def _nested(each: _Calls) -> str | None:
    """Tell whether pauses begin anew in the middle of a call, again and again: one retry loop inside another.

    Only of calls that came to an end: one that failed to the last and the next call look the same.
    """
    restarts: Counter[int] = Counter()
    for call in each.repeated:
        pauses = [gap.ms for gap in call.gaps]
        if len(pauses) < _STORM - 1 or not call.succeeded:
            continue
        drops = [n for n, (a, b) in enumerate(pairwise(pauses), 2) if b < 0.6 * a]
        steps = {later - earlier for earlier, later in zip([0, *drops], drops, strict=False)}
        if len(drops) >= 1 and (len(steps) == 1 or len(drops) == 1):
            restarts[min(steps) if steps else drops[0]] += 1
    inner, times = restarts.most_common(1)[0] if restarts else (0, 0)
    if times < 2:
        return None
    return f"pauses begin anew after every {inner} attempts in {_calls_said(times)}: one retry loop inside another"


def _replayed(each: _Calls) -> Seen | None:
    """A request that may do something twice, sent again after a part of its answer had come."""
    again = [
        gap
        for gap in each.gaps
        if gap.before.asked.answered and gap.before.asked.complete is False and gap.before.asked.method not in _SAFE
        if not gap.before.asked.status >= 400
    ]
    if not again:
        return None
    return _seen(
        each,
        "retry.replayed",
        [(g.after.asked, f"again {milliseconds(g.ms)} after {_bytes(g.before.asked.response_bytes)}") for g in again],
        of=each.count,
        cost_ms=sum(g.before.took_ms for g in again if known(g.before.took_ms)),
        severity=Severity.INFO if doubtful(each.repeated) else Severity.WARNING,
    )


# --- all programs together ----------------------------------------------------------------------------------------


def _no_jitter(every: Sequence[_Calls]) -> list[Seen]:
    """Return programs, or calls side by side, that try again in step: they failed together and come back together."""
    found: list[Seen] = []
    hosts: dict[str, list[_Calls]] = {}
    for each in every:
        hosts.setdefault(each.group.host, []).append(each)
    for groups in hosts.values():
        gaps = [
            (each, gap) for each in groups for gap in each.gaps if not known(gap.asked_ms) and gap.ms > _NO_PAUSE_MS
        ]
        step = _in_step(gaps)
        if step:
            owners = {each.group.pid for each, _ in step}
            pauses = [gap.ms for _, gap in step]
            found.append(
                _seen(
                    step[0][0],
                    "retry.no-jitter",
                    [(gap.after.asked, f"after {milliseconds(gap.ms)}") for _, gap in step],
                    of=len(gaps),
                    note=f"{len(step)} attempts after {min(pauses):.0f} to {max(pauses):.0f} ms"
                    + (f", of {len(owners)} processes" if len(owners) > 1 else ""),
                    words={"pause": milliseconds(median(pauses)), "who": _who(owners, step)},
                    severity=Severity.WARNING if len(owners) >= 3 else Severity.INFO,
                )
            )
    return found


def _who(owners: set[float], step: Sequence[tuple[_Calls, Gap]]) -> str:
    return f"{len(owners)} processes" if len(owners) > 1 else f"{len(step)} calls side by side"


def _in_step(gaps: Sequence[tuple[_Calls, Gap]]) -> list[tuple[_Calls, Gap]]:
    """Return the largest set of at least three pauses of one length that ended in one moment."""
    ordered = sorted(gaps, key=lambda each: each[1].after.began_ns)
    best: list[tuple[_Calls, Gap]] = []
    for number, (_, first) in enumerate(ordered):
        limit = first.after.began_ns + _TOGETHER_MS * 1e6
        same = [each for each in ordered[number:] if each[1].after.began_ns <= limit and _alike(each[1], first)]
        same = list({id(each[1].after): each for each in same}.values())
        best = same if len(same) > len(best) else best
    return best if len(best) >= 3 else []


def _alike(gap: Gap, other: Gap) -> bool:
    return abs(gap.ms - other.ms) <= max(10.0, 0.03 * other.ms)


def _bytes(size: float) -> str:
    return f"{size:.0f} bytes" if known(size) else "an unknown number of bytes"
