# SPDX-License-Identifier: Apache-2.0
"""Connections that the program gave up with an answer unread: the tail of a stream, a whole body, the middle of one."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from netdiag.analysis.case import Group
from netdiag.analysis.claims import PROMPT_MS, Claim, at_once, left_unread, soon_remote
from netdiag.analysis.http_calls import Asked
from netdiag.analysis.links import Link, Turn, known
from netdiag.analysis.pricing import successors

__all__ = ["body_left_open", "by_answers", "closed_unread", "or_closed_early"]

_TAIL = 64
"""A chunked body's last chunk, or the [DONE] event, in TLS records of their own (bytes)."""
_HEAD = 2600
"""A response head and the session tickets that may come with it (bytes)."""
_STREAMED_MS = 30.0
_NEARLY_ALL = 0.8
_LEAVES_TAILS = frozenset({"openai", "node"})
"""Libraries with a version that is known to leave the last bytes of streams."""
_EARLY, _BODY, _CANCELLED = "reuse.stream-closed-early", "reuse.body-unread", "reuse.cancelled"
_NOTES = {
    _EARLY: "bytes of the end lay unread when the program closed",
    _BODY: "only the head of the answer had been read when the program closed",
    _CANCELLED: "part of the answer had been read, more of it lay unread when the program closed",
}


def closed_unread(group: Group, rest: Sequence[Link]) -> Claim | None:
    """The program closes connections while the answer, or the end of it, is unread."""
    local = [link for link in rest if link.closed_by == "local" and _answered(link)]
    ended = [link for link in local if _prompt(link) or left_unread(link)]
    unread = [link for link in ended if left_unread(link)]
    # Where the last bytes are still on their way at the close, nothing of them is seen: some of the closes show it.
    libraries = set(group.process.libraries) if group.process else set()
    streams = [link for link in ended if _streamed(link)]
    known_client = bool(libraries & _LEAVES_TAILS) and len(streams) == len(ended)
    needed = 1 if known_client else max(2.0, len(ended) / 3)
    if len(ended) < 3 or len(successors(ended, group.links)) < 2:
        return None
    if len(unread) < needed:
        told = known_client and not unread and "openai" in libraries and not any(map(soon_remote, rest))
        return _by_reputation(streams) if told else None
    code = Counter(map(_kind, unread)).most_common(1)[0][0]
    alike = [link for link in ended if _streamed(link)] if code == _EARLY else ended
    return Claim(
        code=code,
        lost=tuple(alike),
        confidence=(0.9 if len(unread) >= 0.6 * len(alike) else 0.7),
        note=f"on {len(unread)} of them {_NOTES[code]}",
    )


def by_answers(claim: Claim, asked: Sequence[Asked]) -> Claim:
    """Return a client per call or thread as what it is where plaintext shows that it left before its answers ended.

    `asked` are the group's requests. What had not come yet when the program closed never lies unread in a socket. A
    stream whose last event had been read was not cancelled, however little time all of it took.
    """
    if claim.code == _CANCELLED:
        finished = {call.link.row for call in asked if call.exact and (call.stream or {}).get("finished")}
        if sum(link.row in finished for link in claim.lost) >= _NEARLY_ALL * len(claim.lost):
            return replace(claim, code=_EARLY, note="the last event of their streams had been read, not their end")
    if claim.code not in ("reuse.client-per-call", "reuse.client-per-thread"):
        return claim
    last = {call.link.row: call for call in asked if call.exact and call.answered}
    left = [link for link in claim.lost if link.row in last and last[link.row].complete is False]
    if len(left) < _NEARLY_ALL * len(claim.lost):
        return claim
    code = Counter(_left(link, last[link.row]) for link in left).most_common(1)[0][0]
    note = f"{len(left)} of them before the answer that it had begun to read was over"
    return replace(claim, code=code, lost=tuple(left), cause=None, confidence=0.85, note=note)


def _left(link: Link, call: Asked) -> str:
    if not _streamed(link):
        return _kind(link)
    return _EARLY if (call.stream or {}).get("finished") else _CANCELLED


def _by_reputation(streams: Sequence[Link]) -> Claim | None:
    """One stream a connection, closed at once by a library with a version that does so before the end of the body."""
    if len(streams) < 3 or not all(link.app == 1 and at_once(link) for link in streams):
        return None
    return Claim(
        code=_EARLY,
        lost=tuple(streams),
        confidence=0.5,
        cause="known-client",
        note="each was closed at once after its last data, as this library's synchronous client is known to do; "
        "that bytes of the end were unread was not seen, and a client per call would look the same",
    )


def or_closed_early(claim: Claim) -> tuple[Claim, ...]:
    """Return a client per call with the other candidate, where it carried streams and nobody saw what was read.

    Packets do not tell a program that makes a client for each call from one that leaves the end of each stream unread.
    """
    unseen = all(not known(link.unread) and link.calls for link in claim.lost)
    streams = [link for link in claim.lost if unseen and _streamed(link)]
    if claim.code != "reuse.client-per-call" or not unseen or 2 * len(streams) <= len(claim.lost):
        return (claim,)
    note = "packets alone do not tell them apart: {} would look the same"
    doubt = min(claim.confidence, 0.5)
    return (
        replace(claim, confidence=doubt, cause="unknown", note=f"{claim.note}; {note.format('a stream closed early')}"),
        replace(
            claim,
            code=_EARLY,
            confidence=doubt,
            cause="unknown",
            quiet=True,  # one of the two is the cause, and one warning is enough
            note=f"{claim.note}; {note.format('a client for each call')}",
        ),
    )


def _answered(link: Link) -> bool:
    """An answer had begun when the program closed: one that came later was not waited for."""
    return bool(link.calls) and link.calls[-1].answered and not link.calls[-1].first_byte_ns > link.closing_ns


def _prompt(link: Link) -> bool:
    return link.idle_before_close_ms <= PROMPT_MS


def _last_read(link: Link) -> Turn:
    """Return what the program read last."""
    return next((turn for turn in reversed(link.turns) if turn.answered), link.calls[-1])


def _streamed(link: Link) -> bool:
    last = link.calls[-1] if link.calls[-1].answered else _last_read(link)
    return last.received_bursts >= 3 and (last.last_byte_ns - last.first_byte_ns) / 1e6 >= _STREAMED_MS


def _kind(link: Link) -> str:
    last = _last_read(link)
    if _streamed(link):
        return _CANCELLED if max(link.unread, link.late_bytes) > _TAIL else _EARLY
    head_only = last.received_bytes <= _HEAD and not last.received_bursts >= 3
    return _BODY if head_only else _CANCELLED


def body_left_open(group: Group, rest: Sequence[Link]) -> Claim | None:
    """Connections stay open with an unread answer while the program opens others."""
    kept = [link for link in group.links if link.closed_by != "remote" and left_unread(link) and _answered(link)]
    opened = sorted(link.opened_ns for link in group.links if link.used)
    left = [link for link in kept if _opened_meanwhile(link, opened)]
    if len(left) < 3:
        return None
    first = min(_last_read(link).last_byte_ns for link in left)
    paid = [link for link in group.links if link.opened_ns > first and link.used]
    return Claim(
        code=_BODY,
        lost=tuple(left),
        confidence=0.85,
        cause="left-open",
        pays=tuple(paid[: len(left)]),
        note="they stayed open with data in the receive queue, and others were opened",
    )


def _opened_meanwhile(link: Link, opened: Sequence[float]) -> bool:
    """Another connection was opened while this one stood open with its answer unread."""
    start = _last_read(link).last_byte_ns
    after = bisect_right(opened, start)
    return after < len(opened) and not opened[after] > link.closing_ns
