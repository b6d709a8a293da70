# SPDX-License-Identifier: Apache-2.0
"""Answers that come late, as errors, or not at all after a gateway's patience: what servers and proxies do to calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.calls import Call, beat_apart, calls_of
from netdiag.analysis.case import Case, Group
from netdiag.analysis.http_calls import Asked, certainty, examples
from netdiag.analysis.http_rows import Rows
from netdiag.analysis.links import NAN, Link, known, number
from netdiag.analysis.stream_pieces import streams_of
from netdiag.analysis.whatif import what_if
from netdiag.findings import Finding, Learned, Severity

__all__ = ["analyze"]

_MS = 1e6
_FAR = 3.0
"""A wait within so many round trips is the way's, not the server's."""
_GATEWAY = frozenset({504.0, 524.0, 522.0, 598.0})
_GIVES_UP = frozenset({408.0, 499.0, 502.0, 503.0, 520.0})
"""Statuses that may come for other reasons: they count where all come after the same time, of a second or more."""
_PATIENCE_MS = 1000.0
_EVEN, _EVEN_MS = 0.02, 60.0
_RATE_LIMITED = 429.0
_OWN_WORD = 0.7
_FAILED = 400.0
_NOT_THERE, _DOOR = frozenset({404.0, 410.0}), frozenset({401.0, 407.0})
_POLL_MS, _POLL_EVEN = 5000.0, 0.02
_MANY, _MANY_SHARE, _MOST = 3, 0.05, 0.5
_NO_PAUSE_MS = 50.0


def analyze(case: Case) -> list[Finding]:
    """Return one finding per code and group."""
    found: list[Seen | None] = []
    resent = case.rows["retransmits"]
    for group in case.groups:
        calls = case.asked_by(group)
        if not calls:
            continue
        timed_out = _timed_out(calls)
        given_up = {call.row for call in timed_out}
        rest = [call for call in calls if call.row not in given_up]
        streamed = {stream.call.row for stream in streams_of(case, rest)}
        plain = [call for call in rest if call.row not in streamed and call.stream is None]
        found += [
            _gateway(group, calls, timed_out),
            _slow(case, group, calls, plain, resent),
            _errors(group, calls, rest),
        ]
    return [finding(case, seen) for seen in found if seen is not None]


def _links(calls: Sequence[Asked]) -> tuple[Link, ...]:
    return tuple({call.link.row: call.link for call in calls}.values())


# --- slow servers -----------------------------------------------------------------------------------------------------


def _slow(case: Case, group: Group, calls: Sequence[Asked], plain: Sequence[Asked], resent: Rows) -> Seen | None:
    """Half or more of the calls of a path waited longer than the limit, on a healthy connection."""
    limit = case.options.slow_ms
    by_path: dict[str | None, list[Asked]] = {}
    again: dict[int, list[float]] = {}  # a connection carries many calls: its retransmissions are looked up once
    for call in plain:
        row = call.link.row
        if row not in again:
            again[row] = [number(at) for (at,) in resent.of(row, "at_ns")]
        healthy = not any(call.began_ns <= at <= call.first_byte_ns for at in again[row])
        if known(call.wait_ms) and call.status != _RATE_LIMITED and healthy:
            by_path.setdefault(call.path, []).append(call)
    slow = [
        call
        for path in by_path.values()
        if median(call.wait_ms for call in path) > limit
        for call in path
        if call.wait_ms > limit + _FAR * _trip(call)
    ]
    if not slow:
        return None
    paths = {call.path for call in slow}
    of = sum(len(path) for name, path in by_path.items() if name in paths)
    waits = [call.wait_ms for call in slow]
    saved = {call.row: call.wait_ms - limit for call in slow}
    said = [(call.server_reported_ms, call.wait_ms - _trip(call)) for call in slow if known(call.server_reported_ms)]
    polls = _polls(slow)
    return Seen(
        code="http.slow-server",
        links=_links(slow),
        count=len(slow),
        of=of,
        confidence=0.5 if polls else certainty(slow, 0.9, 0.8),
        cost_ms=sum(saved.values()),
        cause=_whose(said) if 2 * len(said) >= len(slow) else None,
        note=_word(said) + ("; calls that wait for news on purpose (long polling) look the same" if polls else ""),
        learned=Learned(name="wait", value=median(waits), low=min(waits), high=max(waits), unit="ms"),
        # one slow answer is no habit of the server's
        ceiling=Severity.INFO if len(slow) < 2 or polls else None,
        what_if=what_if(calls, saved),
        calls=len(calls),
        words={"wait": milliseconds(median(waits)), "limit": milliseconds(limit), "which": _which(slow)},
        examples=examples((call, _waited(call)) for call in sorted(slow, key=lambda call: -call.wait_ms)),
        host=group.host,
        process=group.process,
    )


def _polls(slow: Sequence[Asked]) -> bool:
    """Tell whether these may be calls that wait for news: GETs, the longest of which all last as long as one timer."""
    if len(slow) < _MANY or any(call.method != "GET" for call in slow):
        return False
    longest = max(call.wait_ms for call in slow)
    timed = sum(call.wait_ms >= (1 - _POLL_EVEN) * longest for call in slow)
    return longest >= _POLL_MS and timed >= max(2, len(slow) // 2)


def _trip(call: Asked) -> float:
    link = call.link
    return next((value for value in (link.min_rtt_ms, link.rtt_ms) if known(value)), 0.0)


def _whose(said: Sequence[tuple[float, float]]) -> str:
    return "server-says-so" if median(told / waited for told, waited in said) >= _OWN_WORD else "before-the-server"


def _word(said: Sequence[tuple[float, float]]) -> str:
    if not said:
        return "data went out and was acknowledged, nothing was sent again"
    told, waited = median(told for told, _ in said), median(waited for _, waited in said)
    if _whose(said) == "server-says-so":
        return f"the server itself says that it took {milliseconds(told)}"
    return f"the server says that it took {milliseconds(told)}: {milliseconds(waited - told)} passed in front of it"


def _which(slow: Sequence[Asked]) -> str:
    paths = {call.path for call in slow}
    only = next(iter(paths)) if len(paths) == 1 else None
    return f" {only}" if only else ""


def _waited(call: Asked) -> str:
    said = f", {milliseconds(call.server_reported_ms)} of it by its own word" if known(call.server_reported_ms) else ""
    return f"{milliseconds(call.wait_ms)} until the first byte{said}"


# --- a gateway's patience ---------------------------------------------------------------------------------------------


def _gateway(group: Group, calls: Sequence[Asked], hit: Sequence[Asked]) -> Seen | None:
    if not hit:
        return None
    ends = [_ended_after(call) for call in hit]
    told = [call for call in hit if known(call.status)]
    even = len(hit) > 1
    cut = not told
    statuses = Counter(call.status for call in told)
    most = f"{statuses.most_common(1)[0][0]:.0f}" if statuses else ""
    return Seen(
        code="http.gateway-timeout",
        links=_links(hit),
        count=len(hit),
        of=len(calls),
        confidence=(0.95 if even else 0.8) if told else 0.6,
        cost_ms=sum(call.total_ms if known(call.total_ms) else _ended_after(call) for call in hit),
        cause="cut" if cut else "status",
        note="the server, or a proxy, ended the connection without an answer, each time after the same wait"
        if cut
        else "",
        learned=Learned(name="timeout", value=median(ends) / 1e3, low=min(ends) / 1e3, high=max(ends) / 1e3, unit="s"),
        breaks=True,
        calls=len(calls),
        words={"how": "were cut off" if cut else f"ended with {most}", "after": milliseconds(median(ends))},
        examples=examples((call, _gave_up(call)) for call in hit),
        host=group.host,
        process=group.process,
    )


def _ended_after(call: Asked) -> float:
    """Return the time from the last byte of the request to the answer, or to the end of the connection, ms."""
    if call.answered:
        return call.wait_ms
    return (call.link.closing_ns - call.sent_ns) / _MS


def _timed_out(calls: Sequence[Asked]) -> list[Asked]:
    """Return the calls that a gateway gave up on: by its status, or by one and the same time to the end."""
    sure = [call for call in calls if call.status in _GATEWAY and known(call.wait_ms)]
    patient = [call for call in calls if call.status in _GIVES_UP and call.wait_ms >= _PATIENCE_MS]
    alike = _alike([*sure, *patient])
    rows = {call.row for call in sure}
    found = sure + [call for call in alike if call.row not in rows and (len(alike) >= _MANY or sure)]
    if found:
        return sorted(found, key=lambda call: call.row)
    cut = [call for call in calls if call.unanswered and _cut(call)]
    alike = _alike(cut)
    return alike if len(alike) >= 2 else []


def _cut(call: Asked) -> bool:
    link = call.link
    last = not link.calls or link.calls[-1].began_ns <= call.began_ns + _MS
    return last and link.closed_by == "remote" and _ended_after(call) >= _PATIENCE_MS


def _alike(calls: Sequence[Asked]) -> list[Asked]:
    """Return the largest set of calls that ended after one and the same time."""
    ordered = sorted(calls, key=_ended_after)
    best: list[Asked] = []
    for index, call in enumerate(ordered):
        limit = _ended_after(call) + max(_EVEN_MS, _EVEN * _ended_after(call))
        same = [other for other in ordered[index:] if _ended_after(other) <= limit]
        best = same if len(same) > len(best) else best
    return best


def _gave_up(call: Asked) -> str:
    how = f"status {call.status:.0f}" if known(call.status) else "cut off without an answer"
    return f"{how} after {milliseconds(_ended_after(call))}"


# --- errors -----------------------------------------------------------------------------------------------------------


def _errors(group: Group, calls: Sequence[Asked], rest: Sequence[Asked]) -> Seen | None:
    """Answers with a status of 400 and above; where all were made again with success, the retry findings tell."""
    tried = beat_apart(calls_of(calls))
    mended = {attempt.asked.row for call in tried if call.succeeded for attempt in call.attempts[:-1]}
    failed = [call for call in rest if call.status >= _FAILED and call.status != _RATE_LIMITED]
    lost = [call for call in failed if call.row not in mended]
    told = [call for call in calls if known(call.status)]
    if not lost:
        return None
    meant = _meant(calls, lost)
    serious = len(lost) - len(meant)
    storm = {attempt.asked.row for call in tried if _hasty(call) for attempt in call.attempts}
    kinds = Counter(call.status for call in failed)
    said = ", ".join(f"{count} × {status:.0f}" for status, count in kinds.most_common(3))
    share = len(failed) / len(told)
    spent = [call.total_ms for call in lost if known(call.total_ms)]
    server = sum(call.status >= 500 for call in failed)
    return Seen(
        code="http.errors",
        links=_links(failed),
        count=len(failed),
        of=len(told),
        confidence=0.95,
        cost_ms=sum(spent) if spent else NAN,
        cause="server" if server == len(failed) else "request" if not server else "both",
        note=said
        + (f"; {len(failed) - len(lost)} were made again with success" if len(lost) < len(failed) else "")
        + (f"; {len(meant)} may be answers that the program asks for" if meant else ""),
        severity=_loudness(serious, serious / len(told)),
        ceiling=Severity.INFO if all(call.row in storm for call in lost) else None,  # the storm is the thing to stop
        calls=len(calls),
        words={"kinds": said, "share": f"{100 * share:.0f} %"},
        examples=examples((call, f"status {call.status:.0f}") for call in failed),
        host=group.host,
        process=group.process,
    )


def _meant(calls: Sequence[Asked], failed: Sequence[Asked]) -> set[int]:
    """Return the failed calls, by row, whose status may be the answer that the program asks for.

    Whether something is there (HEAD, or GET where others found something), or what key a server wants, given next.
    """
    finds = any(call.method == "GET" and call.status < _FAILED for call in calls)
    looks = {"HEAD", "GET"} if finds else {"HEAD"}
    found = {call.row for call in failed if call.status in _NOT_THERE and call.method in looks}
    doors = {call.row for call in failed if call.status in _DOOR}
    before: dict[tuple[str | None, str | None, float | None], Asked] = {}
    for call in sorted(calls, key=lambda call: call.began_ns) if doors else ():
        key = (call.method, call.path, call.tid if known(call.tid) else None)
        if key in before and before[key].row in doors and call.status < _FAILED:
            found.add(before[key].row)
        before[key] = call
    return found


def _hasty(call: Call) -> bool:
    """It was tried again and again without a pause."""
    return sum(gap.ms < _NO_PAUSE_MS for gap in call.gaps) >= _MANY


def _loudness(count: int, share: float) -> Severity:
    if count < _MANY or share < _MANY_SHARE:
        return Severity.INFO
    return Severity.CRITICAL if share >= _MOST else Severity.WARNING
