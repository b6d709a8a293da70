# SPDX-License-Identifier: Apache-2.0
"""Requests that take long to send: a slow uplink, a wait for `100 Continue`, bodies that could have been compressed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.http_calls import Asked, certainty, examples
from netdiag.analysis.http_rows import Rows
from netdiag.analysis.links import Link, known, number
from netdiag.analysis.whatif import what_if
from netdiag.findings import Finding, Learned, Severity

__all__ = ["analyze"]

_MS = 1e6
_SLOW_MS, _TRIPS = 200.0, 3.0
_HEAD = 8192
_BODY = 256
_SILENCE_MS = 250.0
_TIMERS_MS = ((300.0, 420.0), (940.0, 1200.0))
"""How long clients wait for `100 Continue`: .NET 350 ms, curl and Go 1 s; a busy machine adds to it."""
_EVEN_MS = 80.0
_ANSWER_MS = 60.0
_BUFFER = 65_536
"""A body below this fits into any socket's buffer: what takes long is the program that writes it."""
_FAST = 10_000.0
"""kB/s: a request that fills a line of 100 Mbit/s takes long because it is large."""
_LARGE = 100_000
_CODINGS = frozenset({"gzip", "br", "zstd", "deflate"})
_COMPRESSIBLE = ("json", "text", "xml", "x-www-form-urlencoded")
_FEW = 3
_DATA = 23


def analyze(case: Case) -> list[Finding]:
    """Return one finding per code and group."""
    found: list[Seen | None] = []
    bursts, records = case.rows["bursts"], case.rows["records"]
    for group in case.groups:
        calls = case.asked_by(group)
        waits = {call.row: wait for call in calls if (wait := _silence(call, bursts, records)) > 0}
        found += [_expect(group, calls, waits), _slow(group, calls, waits), _uncompressed(group, calls)]
    return [finding(case, seen) for seen in found if seen is not None]


def _links(calls: Sequence[Asked]) -> tuple[Link, ...]:
    return tuple({call.link.row: call.link for call in calls}.values())


# --- Expect: 100-continue ---------------------------------------------------------------------------------------------


def _silence(call: Asked, bursts: Rows, records: Rows) -> float:
    """Return the silence between head and body of a request, ms; 0 where there is none that a client's timer makes.

    Nothing came from the server right before its end: the client went on by itself.
    """
    if call.protocol == "h2" or not (known(call.began_ns) and call.sent_ns - call.began_ns >= _SILENCE_MS * _MS):
        return 0.0
    sends, receives = _moves(call, bursts, records)
    first = sends[0] if sends else None
    after = next((send for send in sends[1:] if (send[0] - sends[0][1]) / _MS >= _SILENCE_MS), None)
    if first is None or after is None:
        return 0.0
    index = sends.index(after)
    head, body = sum(size for _, _, size in sends[:index]), sum(size for _, _, size in sends[index:])
    gap = (after[0] - sends[index - 1][1]) / _MS
    timed = any(low <= gap <= high for low, high in _TIMERS_MS)
    # session tickets may come right after the head; what lets the client go on comes right before the body
    heard = any(after[0] - _ANSWER_MS * _MS < at < after[0] for at in receives)
    return gap if timed and not heard and head <= _HEAD and body >= _BODY else 0.0


def _moves(call: Asked, bursts: Rows, records: Rows) -> tuple[list[tuple[float, float, float]], list[float]]:
    """Return what the program sent during the request (began, ended, bytes) and when anything was received."""
    sends, receives = [], []
    rows = [
        (way, number(began), number(ended), number(size))
        for way, began, ended, size in bursts.of(call.link.row, "direction", "began_ns", "ended_ns", "bytes")
    ]
    if not rows:
        rows = [
            (way, number(at), number(at), number(length))
            for way, at, kind, length in records.of(call.link.row, "direction", "at_ns", "type", "length")
            if kind == _DATA
        ]
    for way, began, ended, size in rows:
        # a first request's head may have gone out in one burst with the end of the handshake
        if ended >= call.began_ns - _MS and began <= call.sent_ns + _MS:
            if way == "send":
                sends.append((max(began, call.began_ns), ended, size))
            else:
                receives.append(began)
    return sorted(sends), receives


def _expect(group: Group, calls: Sequence[Asked], waits: dict[int, float]) -> Seen | None:
    hit = [call for call in calls if call.row in waits]
    if not hit:
        return None
    lengths = [waits[call.row] for call in hit]
    even = len(hit) >= 2 and max(lengths) - min(lengths) <= _EVEN_MS
    return Seen(
        code="http.expect-continue",
        links=_links(hit),
        count=len(hit),
        of=len(calls),
        confidence=0.9 if even else 0.6,
        cost_ms=sum(lengths),
        learned=Learned(
            name="wait_for_continue",
            value=median(lengths) / 1e3,
            low=min(lengths) / 1e3,
            high=max(lengths) / 1e3,
            unit="s",
        ),
        ceiling=None if even else Severity.INFO,
        what_if=what_if(calls, waits),
        calls=len(calls),
        words={"wait": milliseconds(median(lengths))},
        examples=examples(
            (call, f"its head, {milliseconds(waits[call.row])} of silence, then its body") for call in hit
        ),
        host=group.host,
        process=group.process,
    )


# --- slow uploads -----------------------------------------------------------------------------------------------------


def _slow(group: Group, calls: Sequence[Asked], waits: dict[int, float]) -> Seen | None:
    hit = [call for call in calls if _sending(call, waits) >= max(_SLOW_MS, _TRIPS * _trip(call.link))]
    if not hit:
        return None
    times = [_sending(call, waits) for call in hit]
    sizes = [call.request_bytes for call in hit if known(call.request_bytes)]
    rates = [call.request_bytes / ms for call, ms in zip(hit, times, strict=True) if known(call.request_bytes)]
    saved = {call.row: ms for call, ms in zip(hit, times, strict=True)}
    cause = _why(hit, sizes)
    large = cause == "path" and bool(rates) and median(rates) >= _FAST
    return Seen(
        code="http.slow-upload",
        links=_links(hit),
        count=len(hit),
        of=len(calls),
        confidence=certainty(hit, 0.85, 0.75),
        cost_ms=sum(times),
        cause=cause,
        note=(f"requests of {_size(median(sizes))}" if sizes else "")
        + (": they are large, the line is not slow" if large else ""),
        learned=Learned(name="rate", value=median(rates), low=min(rates), high=max(rates), unit="kB/s")
        if rates
        else None,
        # once is a large request, not a slow line
        ceiling=Severity.INFO if len(hit) < _FEW or large else None,
        what_if=what_if(calls, saved),
        calls=len(calls),
        words={
            "size": _size(median(sizes)) if sizes else "unknown size",
            "time": milliseconds(median(times)),
            "rate": f"{_size(1e3 * median(rates))}/s" if rates else "unknown rate",
        },
        examples=examples(
            (call, f"{_size(call.request_bytes)} sent in {milliseconds(ms)}")
            for call, ms in sorted(zip(hit, times, strict=True), key=lambda pair: -pair[1])
        ),
        host=group.host,
        process=group.process,
    )


def _sending(call: Asked, waits: dict[int, float]) -> float:
    """Return how long the server had to wait for the whole request, ms; 0 where it answers while the request goes on.

    Such a request is one half of a conversation, as long as the program means it to be.
    """
    if not known(call.send_ms) or call.first_byte_ns < call.sent_ns - _MS:
        return 0.0
    return call.send_ms - waits.get(call.row, 0.0)


def _trip(link: Link) -> float:
    return link.min_rtt_ms if known(link.min_rtt_ms) else 0.0


def _why(hit: Sequence[Asked], sizes: Sequence[float]) -> str:
    """Return who made it slow: the program that wrote in pieces, the server that read late, or the line between."""
    links = _links(hit)
    shut = sum(link.peer_window_ms for link in links if known(link.peer_window_ms))
    if shut >= 0.5 * sum(call.send_ms for call in hit):
        return "server-reads-late"
    return "program-writes-slowly" if sizes and median(sizes) < _BUFFER else "path"


def _size(count: float) -> str:
    if not known(count):
        return "unknown size"
    return (
        f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB" if count >= 1e4 else f"{count:.0f} bytes"
    )


# --- compression ------------------------------------------------------------------------------------------------------


def _uncompressed(group: Group, calls: Sequence[Asked]) -> Seen | None:
    """Large bodies as they are, to a server that took a compressed one in this trace."""
    taken = [call for call in calls if _coded(call) and call.status < 400]
    large = [call for call in calls if call.request_bytes >= _LARGE and not _coded(call) and _compressible(call)]
    if len(large) < _FEW or not taken:
        return None
    sizes = [call.request_bytes / 1e3 for call in large]
    coding = min(set().union(*map(_coded_by, taken)))
    return Seen(
        code="http.uncompressed-upload",
        links=_links(large),
        count=len(large),
        of=len(calls),
        confidence=0.8,
        note="it took one in this trace",
        learned=Learned(name="size", value=median(sizes), low=min(sizes), high=max(sizes), unit="kB"),
        ceiling=None if sum(call.send_ms for call in large if known(call.send_ms)) >= _SLOW_MS else Severity.INFO,
        structural=2 * len(large) > len(calls),
        calls=len(calls),
        words={"size": _size(1e3 * median(sizes)), "coding": coding},
        examples=examples((call, f"{_size(call.request_bytes)} as they are") for call in large),
        host=group.host,
        process=group.process,
    )


def _names(value: str | None) -> set[str]:
    return {part.partition(";")[0].strip().lower() for part in (value or "").split(",")} - {""}


def _coded_by(call: Asked) -> set[str]:
    return _names(call.request_headers.get("content-encoding")) & _CODINGS


def _coded(call: Asked) -> bool:
    return bool(_coded_by(call))


def _compressible(call: Asked) -> bool:
    return any(kind in call.request_headers.get("content-type", "").lower() for kind in _COMPRESSIBLE)
