# SPDX-License-Identifier: Apache-2.0
"""Lost connections that the server ended: reload, idle timeout, age, request limit, a close after every answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from netdiag.analysis.case import Group
from netdiag.analysis.claims import Claim, at_once, cluster, learned, prompt_local, soon, soon_remote, tolerance
from netdiag.analysis.links import Link, known
from netdiag.analysis.lost_pool import parallel_calls
from netdiag.analysis.pricing import successors
from netdiag.findings import Learned

__all__ = ["server_close", "server_idle_timeout", "server_max_age", "server_max_requests", "server_reload"]

_RELOAD_WINDOW_NS = 25e6
_SHORTEST_AGE_MS = 1000.0
_ASKS_BY_DEFAULT = frozenset({"ab"})
"""Programs that ask the server to close unless told otherwise."""
_SHOWN = 0.05
"""Share of ends by the server that shows who wanted them: a server never ends a connection right with its answer
unless one side asked for it, and then it is chance whose FIN is first."""
_CONTEXT_EACH = frozenset({"httpx", "openai", "anthropic"})
"""Libraries whose clients build a TLS context each; the connections of one client share it."""
_CONTEXT_ELSE = frozenset({"aiohttp", "requests", "node", "go", "java", "curl"})


def _idle(link: Link) -> float:
    return link.idle_before_close_ms


def _age_ms(link: Link) -> float:
    return (link.closing_ns - link.opened_ns) / 1e6


def _idle_remote(rest: Sequence[Link]) -> list[Link]:
    return [
        link
        for link in rest
        if link.closed_by == "remote" and known(_idle(link)) and _served(link) and not soon(link) and not link.cut_off
    ]


def _served(link: Link) -> bool:
    """Every request that had been written before the end was answered."""
    return all(call.answered or call.began_ns > link.closing_ns for call in link.calls)


def server_reload(group: Group, rest: Sequence[Link]) -> Claim | None:
    """Three or more idle connections ended by the server within ms, though they had been idle for unlike times."""
    ordered = sorted(_idle_remote(rest), key=lambda link: link.closing_ns)
    best: list[Link] = []
    for first, link in enumerate(ordered):
        same = [other for other in ordered[first:] if other.closing_ns - link.closing_ns <= _RELOAD_WINDOW_NS]
        best = same if len(same) > len(best) else best
    ages = [_idle(link) for link in best]
    if len(best) < 3 or max(ages) - min(ages) <= 2 * tolerance(max(ages)):
        return None
    return Claim(
        code="reuse.server-reload",
        lost=tuple(best),
        confidence=0.8,
        note=f"idle for {min(ages) / 1e3:.2f} to {max(ages) / 1e3:.2f} s, ended within 25 ms of one another",
    )


def server_idle_timeout(group: Group, rest: Sequence[Link]) -> Claim | None:
    """The server ends connections that lay idle, always after the same time."""
    idle = _idle_remote(rest)
    same = cluster(idle, _idle)
    confidence = min(0.95, 0.8 + 0.05 * len(same))
    if len(same) < 2 and len(idle) >= 3:
        return None
    coarse = [link for link in idle if _idle(link) <= min(map(_idle, idle)) + 1100.0]
    if len(same) < 0.6 * len(idle) and len(coarse) >= 3 and min(map(_idle, coarse)) >= 2000.0:
        same, confidence = coarse, 0.6  # a server that looks at its timers once a second
    if len(same) < 2 or len(successors(same, group.links)) < 2:
        return None
    ages = [_idle(link) for link in same]
    return Claim(
        code="reuse.server-idle-timeout",
        lost=tuple(same),
        confidence=confidence if len(same) >= 0.6 * len(idle) else 0.6,
        learned=learned("idle_timeout", ages),
        note=f"ended by the server {min(ages) / 1e3:.2f} to {max(ages) / 1e3:.2f} s after its last answer",
    )


def server_max_requests(group: Group, rest: Sequence[Link]) -> Claim | None:
    """Connections end right after the k-th answer, k ≥ 2 and always the same."""
    ended = [link for link in rest if soon_remote(link) or (prompt_local(link) and at_once(link))]
    counts = Counter(link.app for link in ended if link.app >= 2)
    if not counts:
        return None
    limit, times = max(counts.items(), key=lambda item: (item[1], item[0]))
    same = [link for link in ended if link.app == limit]
    if times < 2 or times < 0.75 * sum(counts.values()) or len(successors(same, group.links)) < 2:
        return None
    by_server = sum(link.closed_by == "remote" for link in same)
    if not by_server and (parallel_calls(group.links) > 1 or not all(link.exact for link in same)):
        return None  # a pool that shrinks, or a count that may hide a habit of the program
    cause = None if by_server else "unknown"
    confidence = (min(0.95, 0.8 + 0.05 * times) if by_server == times else 0.8) if by_server else 0.5
    ages = [_age_ms(link) for link in same]
    note = f"each ended right after answer {limit:.0f}"
    if by_server and max(ages) - min(ages) <= tolerance(max(ages)) and min(ages) >= _SHORTEST_AGE_MS:
        cause, confidence = "or-max-age", 0.5
        note += f", each {median(ages) / 1e3:.1f} s old: an age limit (reuse.server-max-age) would look the same"
    elif not by_server:
        note += ", closed by the program: because the server asked for it, or because it always makes so many calls"
    return Claim(
        code="reuse.server-max-requests",
        lost=tuple(same),
        confidence=confidence if all(link.exact for link in same) else min(confidence, 0.85),
        cause=cause,
        learned=Learned(name="max_requests", value=limit, low=limit, high=limit, unit="requests"),
        note=note,
    )


def server_max_age(group: Group, rest: Sequence[Link]) -> Claim | None:
    """The server ends connections with the first answer after a certain age."""
    ended = [link for link in rest if soon_remote(link) and link.app >= 2 and len(link.calls) >= 2]
    if len(ended) < 2 or len(successors(ended, group.links)) < 2:
        return None
    used = [link for link in group.links if link.app >= 2 and len(link.calls) >= 2]
    kept = [(link.calls[-2].last_byte_ns - link.opened_ns) / 1e6 for link in used]
    low, high = max(kept), min(map(_age_ms, ended))
    if not 0 <= low < high or high < _SHORTEST_AGE_MS or low < 0.5 * high:
        return None
    return Claim(
        code="reuse.server-max-age",
        lost=tuple(ended),
        confidence=0.8 if len(ended) >= 3 else 0.65,
        learned=Learned(name="max_age", value=(low + high) / 2e3, low=low / 1e3, high=high / 1e3, unit="s"),
        note=f"kept at an age of {low / 1e3:.2f} s, ended with the first answer at {high / 1e3:.2f} s or more",
    )


def server_close(group: Group, rest: Sequence[Link]) -> Claim | None:
    """The server ends every connection with its only answer."""
    single = [link for link in rest if link.app == 1]
    by_server = [link for link in single if soon_remote(link) or _with_its_answer(link)]
    racing = [link for link in single if prompt_local(link) and at_once(link)]
    lost = sorted(by_server + racing, key=lambda link: link.row)
    if len(lost) < 3 or len(successors(lost, group.links)) < 2:
        return None
    if len(by_server) < _SHOWN * len(lost):
        return _asked_for(racing) if _one_client(group, racing) else None
    exe = (group.process.exe or "") if group.process else ""
    asks = exe.rsplit("/", 1)[-1] in _ASKS_BY_DEFAULT
    confidence = 0.75 if not racing else 0.65 if len(by_server) >= max(2, 0.2 * len(lost)) else 0.5
    return Claim(
        code="reuse.client-asks-close" if asks else "reuse.server-close",
        lost=tuple(sorted(lost, key=lambda link: link.row)),
        confidence=confidence if all(link.exact for link in lost) else confidence - 0.05,
        cause="unknown",
        note=(
            f"{len(by_server)} of {len(lost)} ended first by the server, within "
            f"{max(map(_idle, by_server)):.1f} ms of the answer; the program may have asked for it by a header"
        ),
    )


def _with_its_answer(link: Link) -> bool:
    """The server ended it right behind its answer, whether or not the program read that."""
    answered = bool(link.calls) and link.calls[-1].answered
    return link.closed_by == "remote" and link.close == "fin" and answered and soon(link)


def _one_client(group: Group, lost: Sequence[Link]) -> bool:
    """The connections share a TLS context, in a library that builds one for each client: they are of one client.

    The library must be loaded for certain: a program that merely could use it may share a context by its own hand.
    """
    libraries = set(group.process.libraries) if group.process else set()
    others = set(group.process.libraries) & _CONTEXT_ELSE if group.process else set()
    if 2 * len(lost) < len([link for link in group.links if link.used]) or parallel_calls(group.links) > 1:
        return False  # a pool that gives up what it has too many of
    later = [link for link in lost[1:] if known(link.contexts)]
    shared = [link for link in later if link.contexts == 0]
    return bool(libraries & _CONTEXT_EACH) and not others and len(shared) >= max(2, 0.8 * (len(lost) - 1))


def _asked_for(lost: Sequence[Link]) -> Claim:
    return Claim(
        code="reuse.server-close",
        lost=tuple(lost),
        confidence=0.5,
        cause="unknown",
        note=(
            "the program closed each at once after its only answer, though they share one client (one TLS context): "
            "most likely the answers ask for it; clients that are given one context and dropped would look the same"
        ),
    )
