# SPDX-License-Identifier: Apache-2.0
"""Calls that are sent elsewhere first, each time: the answer to one request is the address of the next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.http_calls import Asked, examples
from netdiag.analysis.links import Link, Turn, known
from netdiag.findings import Finding, Severity

__all__ = ["analyze"]

_STATUSES = frozenset({301.0, 302.0, 303.0, 307.0, 308.0})
_HABIT = 3
_NEXT_NS = 30e6
"""A client follows at once."""
_MOSTLY = 0.8
_SMALL_BYTES = 1500.0
"""Head and a few words: more is an answer."""


def analyze(case: Case) -> list[Finding]:
    """Return one finding per program and URL that redirects; without plaintext per pair of hosts."""
    found = [seen for group in case.groups for seen in _told(case, group)]
    said = {link.row for seen in found for link in seen.links}
    found += [seen for seen in _inferred(case) if not said & {link.row for link in seen.links}]
    return [finding(case, seen) for seen in found]


def _told(case: Case, group: Group) -> Iterable[Seen]:
    """Yield what the answers themselves say."""
    paths: dict[tuple[str | None, str | None], list[Asked]] = {}
    asked = case.asked_by(group)
    for call in asked:
        if call.status in _STATUSES and call.exact:
            paths.setdefault((call.host, call.path), []).append(call)
    for (_, path), calls in paths.items():
        if len(calls) < _HABIT:
            continue
        statuses = sorted({f"{call.status:.0f}" for call in calls})
        permanent = all(call.status in (301.0, 308.0) for call in calls)
        yield Seen(
            code="reuse.redirect-each-call",
            links=tuple({call.link.row: call.link for call in calls}.values()),
            count=len(calls),
            of=len([call for call in asked if call.path == path]),
            confidence=0.95,
            cost_ms=sum(call.total_ms for call in calls if known(call.total_ms)),
            cause="permanent" if permanent else "temporary",
            note=f"status {', '.join(statuses)}",
            calls=float(len(calls)),
            words={"where": path or group.host, "sent": "were sent", "shown": "were redirects"},
            examples=examples((call, f"{call.status:.0f} after {milliseconds(call.total_ms)}") for call in calls),
            host=group.host,
            process=group.process,
        )


def _inferred(case: Case) -> Iterable[Seen]:
    """Yield pairs of hosts of one program, of which each call to the first is followed at once by one to the second."""
    by_pid: dict[float, list[Group]] = {}
    for group in case.groups:
        by_pid.setdefault(group.pid, []).append(group)
    for groups in by_pid.values():
        starts = [sorted(_starts(group.links)) for group in groups]
        for first in groups:
            sent = _sent(case, first)
            for second, began in zip(groups, starts, strict=True) if sent else ():
                seen = _pairs(first, sent, second, began) if first is not second else None
                if seen is not None:
                    yield seen


def _sent(case: Case, first: Group) -> list[tuple[Turn, Link]]:
    """Return the calls to a host that may redirect each of them; none where one shows that it does not."""
    sent = [(call, link) for link in first.links for call in link.calls]
    small = all(call.answered and call.received_bytes <= _SMALL_BYTES for call, _ in sent)
    if len(sent) < _HABIT or not small:
        return []
    said = any(call.status not in _STATUSES and known(call.status) for call in case.asked_by(first))
    return [] if said else sent


def _pairs(first: Group, sent: Sequence[tuple[Turn, Link]], second: Group, starts: Sequence[float]) -> Seen | None:
    strangers = not known(first.pid) and first.links[0].local_ip != second.links[0].local_ip
    if len(starts) < len(sent) or strangers:
        return None
    for call, _ in sent:
        after = bisect_left(starts, call.last_byte_ns)
        if after == len(starts) or starts[after] - call.last_byte_ns > _NEXT_NS:
            return None
    in_turn = _in_turn(sent, second)
    took = [(call.last_byte_ns - call.began_ns) / 1e6 for call, _ in sent]
    cost = sum(took) + sum(link.setup_ms for link in first.links if known(link.setup_ms))
    return Seen(
        code="reuse.redirect-each-call",
        links=tuple({link.row: link for _, link in sent}.values()),
        count=len(sent),
        of=len(sent),
        confidence=0.4 if in_turn else 0.6,
        cost_ms=cost,
        cause="unknown",
        note=f"each answered in {milliseconds(median(took))}, then a call to {second.host} at once"
        + ("; a program that calls two hosts in turn looks the same" if in_turn else ""),
        # what the answers said was not seen
        ceiling=Severity.INFO if in_turn else Severity.WARNING,
        calls=float(len(sent)),
        words={"where": first.host, "sent": "seem to be sent", "shown": "may have been redirects"},
        host=first.host,
        process=first.process,
    )


def _in_turn(sent: Sequence[tuple[Turn, Link]], second: Group) -> bool:
    """Tell whether a call to the second host is as surely followed by one to the first: then none leads to another."""
    begins = sorted(_starts({link.row: link for _, link in sent}.values()))
    ends = sorted(call.last_byte_ns for link in second.links for call in link.calls if known(call.last_byte_ns))
    follows = sum(
        (at := bisect_left(begins, end)) < len(begins) and begins[at] - end <= _NEXT_NS for end in ends[: len(sent) - 1]
    )
    return follows >= _MOSTLY * (len(sent) - 1)


def _starts(links: Iterable[Link]) -> Iterable[float]:
    """Yield when calls began: with their connection where it was opened for them."""
    for link in links:
        for number, call in enumerate(link.calls):
            opened = number == 0 and known(link.opened_ns) and call.began_ns - link.opened_ns <= 1e9
            yield link.opened_ns if opened else call.began_ns
