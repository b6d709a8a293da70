# SPDX-License-Identifier: Apache-2.0
"""Streams that begin late or come in lumps: slow first tokens, buffers on the way, prompts that missed the cache."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import inf, log
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group, Process
from netdiag.analysis.http_calls import Asked, asked_of, certainty, examples
from netdiag.analysis.http_rows import Rows
from netdiag.analysis.links import Link, known, number
from netdiag.analysis.stream_breaks import beats_of
from netdiag.analysis.stream_pieces import SPOKEN, Streams, streams_of
from netdiag.analysis.whatif import first_token, what_if
from netdiag.findings import Finding, Learned, Severity

__all__ = ["analyze"]

_MS = 1e6
_LUMP_NS = 1e6
_STEADY = 0.5
"""From the first token on, the longest pause is below this share of the wait for it: the server did not stutter on."""
_ENOUGH_GAPS = 5
_EVENTS, _FEW, _FEW_OF = 10, 3, 0.2
_LONG_MS, _APART_MS = 300.0, 200.0
_NEAR_END = 0.9
_DELAY_MS = 100.0
_ROUND_TRIPS = 3.0
_CODED = ("gzip", "br", "zstd", "deflate")
_SAME_PROMPT, _FELL = 0.1, 0.5
_LATER, _LATER_MS = 1.2, 100.0
_PROMPT_TOKENS = 1024
"""Shorter prompts are cached nowhere."""


def analyze(case: Case) -> list[Finding]:
    """Return one finding per code and group."""
    found: list[Seen | None] = []
    for group in case.groups:
        calls = case.asked_by(group)
        streams = streams_of(case, calls)
        lumped = [stream for stream in streams if _lumps(stream)]
        held = {stream.call.row for stream in lumped}
        found += [_buffered(group, calls, streams, lumped), _prefix(group, calls)]
        found.append(_slow(case, group, calls, [stream for stream in streams if stream.call.row not in held]))
    found += _proxies(case)
    return [finding(case, seen) for seen in found if seen is not None]


def _links(calls: Sequence[Asked]) -> tuple[Link, ...]:
    return tuple({call.link.row: call.link for call in calls}.values())


# --- first token ------------------------------------------------------------------------------------------------------


def _slow(case: Case, group: Group, calls: Sequence[Asked], streams: Sequence[Streams]) -> Seen | None:
    limit = case.options.slow_ms
    timed = [stream for stream in streams if known(stream.first_token_ms)]
    slow = [stream for stream in timed if _late(stream, limit) and not beats_of(stream, limit)]
    if not slow or 2 * len(slow) < len(timed):
        return None
    waits = [stream.first_token_ms for stream in slow]
    saved = {stream.call.row: stream.first_token_ms - limit for stream in slow}
    told = all(stream.told for stream in slow)
    said = [s.call.server_reported_ms for s in slow if known(s.call.server_reported_ms)]
    return Seen(
        code="stream.slow-first-token",
        links=_links([stream.call for stream in slow]),
        count=len(slow),
        of=len(timed),
        confidence=0.9 if told else 0.7,
        cost_ms=sum(saved.values()),
        cause=_growth(slow),
        note=_word(said, told=told),
        learned=Learned(name="first_token", value=median(waits), low=min(waits), high=max(waits), unit="ms"),
        ceiling=Severity.INFO if len(slow) < 2 else None,
        what_if=what_if([stream.call for stream in timed], saved, first_token),
        calls=len(calls),
        words={"wait": milliseconds(median(waits)), "limit": milliseconds(limit)},
        examples=examples((s.call, _silence(s)) for s in slow),
        host=group.host,
        process=group.process,
    )


def _late(stream: Streams, limit: float) -> bool:
    wait, link = stream.first_token_ms, stream.call.link
    trip = link.min_rtt_ms if known(link.min_rtt_ms) else 0.0
    return wait > limit + _ROUND_TRIPS * trip and _cadence(stream) < max(_STEADY * wait, limit)


def _cadence(stream: Streams) -> float:
    """Return the longest gap between tokens, stalls left out: one in ten, and one of five; they are another finding."""
    gaps = sorted(stream.gaps_ms)
    stalls = max(1, len(gaps) // 10) if len(gaps) >= _ENOUGH_GAPS else 0
    return gaps[-1 - stalls] if gaps else 0.0


def _silence(stream: Streams) -> str:
    gaps = stream.gaps_ms
    cadence = f", then a token every {milliseconds(median(gaps))}" if gaps else ""
    return f"{milliseconds(stream.first_token_ms)} until the first token{cadence}"


def _word(said: Sequence[float], *, told: bool) -> str:
    server = f"the server itself says {milliseconds(median(said))}" if said else ""
    unread = "" if told else "content was not seen: counted to the first piece of the answer"
    return "; ".join(part for part in (server, unread) if part)


def _growth(slow: Sequence[Streams]) -> str | None:
    """Return `prefill` where the wait grows with the size of the request, clearly and over a wide range."""
    points = sorted((s.call.request_bytes, s.first_token_ms) for s in slow if known(s.call.request_bytes))
    if len(points) < 4 or points[-1][0] < 2 * points[0][0]:
        return None
    rising = sum(b[1] > a[1] for a, b in pairwise(points))
    return "prefill" if rising >= 0.8 * (len(points) - 1) and points[-1][1] > 1.3 * points[0][1] else None


# --- buffered ---------------------------------------------------------------------------------------------------------


def _arrivals(stream: Streams) -> list[tuple[float, float]]:
    """Return the instants at which events came, and how many came at each."""
    found: list[tuple[float, float]] = []
    last = -1e18
    for piece in stream.tokens:
        count = piece.events if known(piece.events) else 0.0
        if found and piece.at_ns - last < _LUMP_NS:
            found[-1] = (found[-1][0], found[-1][1] + count)
        else:
            found.append((piece.at_ns, count))
        last = piece.at_ns
    return found


def _lumps(stream: Streams) -> bool:
    """Many events came in few bursts, far apart, or all of them at the end."""
    if not stream.counted:
        return False
    arrivals = _arrivals(stream)
    events = sum(count for _, count in arrivals)
    call = stream.call
    whole = (call.ended_ns - call.sent_ns) / _MS
    if events < _EVENTS or not whole >= _LONG_MS or len(arrivals) > max(_FEW, _FEW_OF * events):
        return False
    apart = [(b - a) / _MS for (a, _), (b, _) in pairwise(arrivals)]
    at_end = (arrivals[0][0] - call.sent_ns) / _MS >= _NEAR_END * whole
    return at_end or bool(apart and median(apart) >= _APART_MS)


def _buffered(
    group: Group, calls: Sequence[Asked], streams: Sequence[Streams], lumped: Sequence[Streams]
) -> Seen | None:
    if not lumped:
        return None
    each = [sum(count for _, count in _arrivals(stream)) / len(_arrivals(stream)) for stream in lumped]
    tokens = any(s.call.model is not None or any(p.kind in SPOKEN for p in s.pieces) for s in lumped)
    coded = [s for s in lumped if any(c in s.call.headers.get("content-encoding", "") for c in _CODED)]
    return Seen(
        code="stream.buffered",
        links=_links([stream.call for stream in lumped]),
        count=len(lumped),
        of=len(streams),
        confidence=0.75 if len(lumped) > 1 else 0.6,
        cause="compressed" if 2 * len(coded) > len(lumped) else None,
        note="seen from this end alone: a proxy, or the server itself, held them back"
        + ("" if tokens else ", if they were not all made at once"),
        learned=Learned(name="events_a_burst", value=median(each), low=min(each), high=max(each), unit="events"),
        structural=2 * len(lumped) > len(streams) and len(lumped) > 1,
        # nobody knows that events which are no model's were ready earlier
        ceiling=Severity.INFO if len(lumped) < 2 or not tokens else None,
        calls=len(calls),
        words={"each": f"{median(each):.0f}", "where": "on the way"},
        examples=examples((stream.call, _lump(stream)) for stream in lumped),
        host=group.host,
        process=group.process,
    )


def _lump(stream: Streams) -> str:
    arrivals = _arrivals(stream)
    events = sum(count for _, count in arrivals)
    bursts = "1 burst" if len(arrivals) == 1 else f"{len(arrivals)} bursts"
    first = (arrivals[0][0] - stream.call.sent_ns) / _MS
    whole = (stream.call.ended_ns - stream.call.sent_ns) / _MS
    return f"{events:.0f} events in {bursts}, the first after {milliseconds(first)} of {milliseconds(whole)}"


# --- a proxy on this machine ------------------------------------------------------------------------------------------

_Pair = tuple[Asked, Asked, float]


def _proxies(case: Case) -> list[Seen | None]:
    """Return the programs that serve and call at once, and hand on later and in larger pieces what they get."""
    serving = {link.pid for link in case.links if link.role == "server"}
    calling = {link.pid for link in case.clients}
    both = {pid for pid in serving & calling if known(pid)}
    if not both:
        return []
    served = asked_of(case.tables.requests, case.links, served=True)
    return [_proxy(case, group, served) for group in case.groups if group.pid in both]


def _proxy(case: Case, group: Group, served: Sequence[Asked]) -> Seen | None:
    bursts = case.rows["bursts"]
    calls = case.asked_by(group)
    mine = sorted((call for call in served if call.link.pid == group.pid), key=lambda call: call.began_ns)
    begins = [call.began_ns for call in mine]
    pairs: list[_Pair] = []
    for up in calls:
        at = bisect_right(begins, up.began_ns + _LUMP_NS) - 1
        down = mine[at] if at >= 0 else None
        if down is None or not (up.answered and down.answered) or not down.ended_ns >= up.first_byte_ns:
            continue
        came, went = _count(up, bursts, "receive"), _count(down, bursts, "send")
        delay = (down.first_byte_ns - up.first_byte_ns) / _MS
        lasted = (up.ended_ns - up.first_byte_ns) / _MS
        if came >= 5 and 2 * went <= came and delay >= max(_DELAY_MS, 0.3 * lasted):
            pairs.append((up, down, delay))
    if not pairs:
        return None
    delays = [delay for _, _, delay in pairs]
    return Seen(
        code="stream.buffered",
        links=_links([up for up, _, _ in pairs]),
        count=len(pairs),
        of=len(calls),
        confidence=0.95 if len(pairs) > 1 else 0.85,
        cost_ms=sum(delays),
        cause="proxy",
        note="both legs of it were seen",
        learned=Learned(name="held_back", value=median(delays), low=min(delays), high=max(delays), unit="ms"),
        structural=2 * len(pairs) > len(calls),
        what_if=what_if([down for _, down, _ in pairs], {down.row: delay for _, down, delay in pairs}, first_token),
        calls=len(calls),
        words={"each": f"{median(_count(up, bursts, 'receive') for up, _, _ in pairs):.0f}", "where": _where(group)},
        examples=examples((up, _legs(up, down, bursts)) for up, down, _ in pairs),
        host=group.host,
        process=group.process,
    )


def _where(group: Group) -> str:
    process: Process | None = group.process
    name = (process.exe or process.comm or "").rsplit("/", 1)[-1] if process else ""
    return f"in {name or 'the proxy'} on this machine"


def _count(call: Asked, bursts: Rows, direction: str) -> int:
    """Return in how many bursts an answer passed."""
    return sum(
        1
        for way, began in bursts.of(call.link.row, "direction", "began_ns")
        if way == direction and call.first_byte_ns - _LUMP_NS <= number(began) <= call.ended_ns + _LUMP_NS
    )


def _legs(up: Asked, down: Asked, bursts: Rows) -> str:
    delay = (down.first_byte_ns - up.first_byte_ns) / _MS
    came, went = _count(up, bursts, "receive"), _count(down, bursts, "send")
    return f"came in {came} pieces, went on in {went}, the first one {milliseconds(delay)} after it had come"


# --- the prompt's cache -----------------------------------------------------------------------------------------------


def _prefix(group: Group, calls: Sequence[Asked]) -> Seen | None:
    """Prompts of one size, of which those with fewer cached tokens waited longer for their first token."""
    told = [
        call
        for call in calls
        if call.input_tokens >= _PROMPT_TOKENS and known(call.cached_tokens) and known(first_token(call))
    ]
    alike: dict[tuple[str | None, int], list[Asked]] = {}
    for call in told:
        alike.setdefault((call.model, round(log(call.input_tokens) / _SAME_PROMPT)), []).append(call)
    best: tuple[list[Asked], list[Asked]] = ([], [])
    for mine in alike.values():
        most = max(call.cached_tokens / call.input_tokens for call in mine)
        hits = [c for c in mine if most > 0 and c.cached_tokens / c.input_tokens > _FELL * most]
        # the first one of a kind cannot be cached yet
        since = min((hit.began_ns for hit in hits), default=inf)
        misses = [c for c in mine if c.cached_tokens / c.input_tokens <= _FELL * most and c.began_ns > since]
        if len(misses) > len(best[1]):
            best = (hits, misses)
    hits, misses = best
    if len(misses) < 3:
        return None
    usual = median(first_token(call) for call in hits)
    late = [call for call in misses if first_token(call) > max(_LATER * usual, usual + _LATER_MS)]
    if len(late) < 3:
        return None
    saved = {call.row: first_token(call) - usual for call in late}
    shares = [call.cached_tokens / call.input_tokens * 100 for call in late]
    return Seen(
        code="stream.prefix-cache-miss",
        links=_links(late),
        count=len(late),
        of=len(told),
        confidence=certainty(late, 0.85, 0.6),
        cost_ms=sum(saved.values()),
        note=f"with a cached prompt the first token came after {milliseconds(usual)}, without after "
        f"{milliseconds(median(first_token(call) for call in late))}",
        learned=Learned(name="cached_share", value=median(shares), low=min(shares), high=max(shares), unit="%"),
        what_if=what_if(calls, saved, first_token),
        calls=len(calls),
        words={"usual": milliseconds(usual)},
        examples=examples((call, _cached(call)) for call in late),
        host=group.host,
        process=group.process,
    )


def _cached(call: Asked) -> str:
    share = f"{call.cached_tokens:,.0f} of {call.input_tokens:,.0f} input tokens cached"
    return f"{share}, first token after {milliseconds(first_token(call))}"
