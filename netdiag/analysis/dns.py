# SPDX-License-Identifier: Apache-2.0
"""Look-ups of names that cost time or bring nothing: slow, repeated, failed, with suffixes tried in vain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Process
from netdiag.analysis.links import NAN, Link, known
from netdiag.findings import Evidence, Finding, Severity
from netdiag.tables.lookups import LookUp, look_ups
from netdiag.tables.names import followed

__all__ = ["analyze"]

_SLOW_MS = 100.0
_TIMER_MS = 1000.0
"""A look-up that takes so long waited for an answer that did not come: that needs no repetition to be said aloud."""
_HABIT = 3
_SHOWN = 5
_MOST = 0.8
"""What most of the slow look-ups have in common is their cause."""


def analyze(case: Case) -> list[Finding]:
    """Return one finding per code and process; a failure per process and name."""
    lookups = look_ups(case.tables.resolutions)
    uses: dict[int, list[Link]] = {}
    for link, one in zip(case.links, followed(case.tables.connections, lookups), strict=True):
        if one is not None:
            uses.setdefault(one.row, []).append(link)
    found: list[Seen | None] = []
    for own in _by(lookups, lambda one: one.pid).values():
        process = case.processes.get(own[0].pid)
        found += [_slow(own, uses, process), _search_list(own, uses, process)]
        for name, same in _by(own, lambda one: one.name).items():
            found += [_repeated(name, same, uses, process), _failed(case, name, same, uses, process)]
    return [finding(case, _priced(seen)) for seen in found if seen is not None]


def _priced(seen: Seen) -> Seen:
    """Return the finding with its cost alone where no request waited for the look-ups: it is no part of their time."""
    if seen.links or not known(seen.cost_ms):
        return seen
    return replace(seen, words={**seen.words, "price": milliseconds(seen.cost_ms)})


def _by(lookups: Iterable[LookUp], key: Callable[[LookUp], float | str]) -> dict[float | str, list[LookUp]]:
    found: dict[float | str, list[LookUp]] = {}
    for one in lookups:
        value = key(one)
        found.setdefault(-1.0 if isinstance(value, float) and math.isnan(value) else value, []).append(one)
    return found


def _links(lookups: Iterable[LookUp], uses: dict[int, list[Link]]) -> tuple[Link, ...]:
    return tuple(link for one in lookups for link in uses.get(one.row, ()))


def _seen(code: str, lookups: Sequence[LookUp], of: int, uses: dict[int, list[Link]], process: Process | None) -> Seen:
    """Return what all these findings say alike."""
    names = list(dict.fromkeys(one.name for one in lookups))
    said = names[0] if len(names) == 1 else f"{len(names)} names"
    examples = [_example(one) for one in lookups[:_SHOWN]]
    if len(lookups) > _SHOWN:
        examples.append(Evidence(kind="resolution", id=None, note=f"and {len(lookups) - _SHOWN} more like these"))
    return Seen(
        code=code,
        links=_links(lookups, uses),
        count=len(lookups),
        of=of,
        confidence=0.9,
        examples=tuple(examples),
        host=names[0] if len(names) == 1 else None,
        process=process,
        words={"names": said},
    )


def _example(one: LookUp) -> Evidence:
    took = milliseconds(one.duration_ms) if known(one.duration_ms) else "no answer"
    parts = [f"{one.name} by {'the C library' if one.source == 'libc' else 'DNS messages'}: {took}"]
    count = len(one.answers)
    parts += [f"{one.error}"] if one.error else [f"{count} address{'es' if count != 1 else ''}"]
    for question in one.questions[:4]:
        how = (
            milliseconds((question.ended_ns - question.started_ns) / 1e6) if known(question.ended_ns) else "unanswered"
        )
        again = f", asked {question.attempts:.0f} times" if question.attempts > 1 else ""
        again += ", again over TCP" if question.truncated else ""
        name = "" if question.name == one.name else f"{question.name} "
        parts.append(f"{question.qtype} {name}{question.error or how}{again}")
    return Evidence(kind="resolution", id=f"n{one.row + 1}", note=", ".join(parts))


# --- slow ---------------------------------------------------------------------------------------------------------


def _slow(own: Sequence[LookUp], uses: dict[int, list[Link]], process: Process | None) -> Seen | None:
    slow = [one for one in own if one.duration_ms >= _SLOW_MS and one.error is None]
    if not slow:
        return None
    cause, share = _cause(slow)
    again = len(slow) >= _HABIT or any(one.duration_ms >= _TIMER_MS for one in slow)
    shared = _seen("dns.slow", slow, len(own), uses, process)
    typical = milliseconds(median(one.duration_ms for one in slow))
    return replace(
        shared,
        words={**shared.words, "typical": typical, "why": _WHY[cause or ""]},
        confidence=0.9 if any(one.questions for one in slow) else 0.75,
        cost_ms=sum(one.duration_ms for one in slow),
        cause=cause,
        note=f"{typical} in the middle, {milliseconds(max(one.duration_ms for one in slow))} at most"
        + (f"; {_WHY[cause]}" if cause and share == len(slow) else f"; in {share}, {_WHY[cause]}" if cause else ""),
        ceiling=None if again else Severity.INFO,
    )


_WHY = {
    "": "the resolver answered late",
    "server": "the resolver answered late",
    "unanswered": "questions got no answer and were asked again",
    "aaaa": "the answer about IPv6 addresses came late, that about IPv4 long before",
    "tcp": "the answer did not fit into a datagram and was asked for again over TCP",
    "search-list": "suffixes of the search list were tried first",
}


def _cause(slow: Sequence[LookUp]) -> tuple[str | None, int]:
    """Return what made most of the slow look-ups slow, and how many; None where no message was seen."""
    seen = [one for one in slow if one.questions]
    checks: tuple[tuple[str, Callable[[LookUp], bool]], ...] = (
        ("unanswered", _unanswered),
        ("tcp", lambda one: any(question.truncated for question in one.questions)),
        ("search-list", lambda one: _in_vain_ms(one) >= 0.5 * one.duration_ms),
        ("aaaa", _late_aaaa),
        ("server", lambda _one: True),
    )
    for cause, check in checks:
        count = sum(map(check, seen))
        if count and count >= _MOST * len(slow):
            return cause, count
    return None, 0


def _unanswered(one: LookUp) -> bool:
    return any(question.attempts > 1 or question.error == "timeout" for question in one.questions)


def _late_aaaa(one: LookUp) -> bool:
    """The AAAA answer took most of the time, while the A answer had been there."""
    times = {
        kind: [(q.ended_ns - q.started_ns) / 1e6 for q in one.questions if q.qtype == kind and known(q.ended_ns)]
        for kind in ("A", "AAAA")
    }
    return bool(times["A"] and times["AAAA"]) and sum(times["AAAA"]) - sum(times["A"]) >= 0.5 * one.duration_ms


# --- the same name again and again --------------------------------------------------------------------------------


def _repeated(
    name: object, same: Sequence[LookUp], uses: dict[int, list[Link]], process: Process | None
) -> Seen | None:
    again = [
        later
        for earlier, later in pairwise(same)
        if known(earlier.ttl_s) and known(later.duration_ms) and later.error is None and later.questions
        if later.started_ns < earlier.ended_ns + earlier.ttl_s * 1e9 and later.started_ns >= earlier.ended_ns
    ]
    if len(again) < _HABIT:
        return None
    shared = _seen("dns.repeated", again, len(same), uses, process)
    ttl = f"{median(one.ttl_s for one in same if known(one.ttl_s)):.0f} s"
    return replace(
        shared,
        words={**shared.words, "ttl": ttl, "name": str(name)},
        cost_ms=sum(one.duration_ms for one in again),
    )


# --- failed -------------------------------------------------------------------------------------------------------


def _failed(
    case: Case, name: object, same: Sequence[LookUp], uses: dict[int, list[Link]], process: Process | None
) -> Seen | None:
    failed = [one for one in same if one.error is not None and not one.answers and _asks_addresses(one)]
    if not failed:
        return None
    errors = [str(one.error) for one in failed]
    cause = max(set(errors), key=lambda error: (errors.count(error), error))
    always = len(failed) == len(same)
    waited = [one.duration_ms for one in failed if known(one.duration_ms)]
    shared = _seen("dns.failed", failed, len(same), uses, process)
    optional = always and len(failed) < _HABIT and cause in _NO_SUCH_NAME and _works(case, failed[0].pid)
    return replace(
        shared,
        words={**shared.words, "error": cause, "name": str(name)},
        cost_ms=sum(waited) if waited else NAN,
        cause=_CAUSES.get(cause, cause.lower()),
        note=", ".join(f"{errors.count(error)} × {error}" for error in sorted(set(errors))),
        severity=Severity.INFO
        if optional
        else Severity.CRITICAL
        if always and len(failed) >= _HABIT
        else Severity.WARNING,
    )


_NO_SUCH_NAME = frozenset({"NXDOMAIN", "EAI_NONAME", "EAI_NODATA"})
_CAUSES = {"EAI_NONAME": "nxdomain", "EAI_NODATA": "no-address", "EAI_AGAIN": "no-answer", "timeout": "no-answer"}


def _asks_addresses(one: LookUp) -> bool:
    return one.source == "libc" or any(question.qtype in ("A", "AAAA") for question in one.questions)


def _works(case: Case, pid: float) -> bool:
    """The process reached some server: a name that it asked once in vain may be one that it can do without."""
    return any(link.outcome == "established" and link.used and link.pid == pid for link in case.clients)


# --- suffixes tried in vain ---------------------------------------------------------------------------------------


def _search_list(own: Sequence[LookUp], uses: dict[int, list[Link]], process: Process | None) -> Seen | None:
    missed = [one for one in own if _in_vain(one)]
    if len(missed) < _HABIT:
        return None
    tried = [len(_in_vain(one)) for one in missed]
    suffixes = list(dict.fromkeys(suffix for one in missed for suffix in _suffixes(one)))
    shared = _seen("dns.search-list", missed, len(own), uses, process)
    return replace(
        shared,
        words={**shared.words, "tried": f"{median(tried):.0f}", "suffixes": ", ".join(suffixes[:3])},
        cost_ms=sum(_in_vain_ms(one) for one in missed),
        note=f"{sum(tried)} names in vain",
    )


def _in_vain(one: LookUp) -> list[str]:
    """Return the names with a suffix that were tried and have no address, of a look-up that found one in the end."""
    found = {question.name for question in one.questions if question.found}
    longer = [q.name for q in one.questions if q.name.startswith(f"{one.name}.") and q.name not in found]
    return list(dict.fromkeys(longer)) if found else []


def _suffixes(one: LookUp) -> list[str]:
    return [name.removeprefix(f"{one.name}.") for name in _in_vain(one)]


def _in_vain_ms(one: LookUp) -> float:
    """Return how long the questions about names that do not exist took."""
    names = set(_in_vain(one))
    ends = [q.ended_ns for q in one.questions if q.name in names and known(q.ended_ns)]
    return (max(ends) - one.started_ns) / 1e6 if ends else 0.0
