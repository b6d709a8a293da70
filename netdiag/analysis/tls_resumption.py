# SPDX-License-Identifier: Apache-2.0
"""Sessions that could have been resumed and were not: never offered, never issued, refused, too few; early data.

Priced by what resumption saves: a round trip in TLS 1.2; in TLS 1.3 bytes and CPU time, but no round trip, unless the
server's certificates do not fit into its first window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case
from netdiag.analysis.links import known
from netdiag.analysis.tls_shakes import Server, Shake, saw, servers
from netdiag.findings import Finding, Learned, Severity

__all__ = ["analyze"]

_HABIT = 3
_BURST_NS = 200e6
_EXPIRED_FACTOR = 2.0
_SHORTEST_LIFETIME_NS = 5e9
"""A pause before a refusal that could be a ticket's end; and so much longer than any after which one was accepted."""
_MANY_NODES = 0.25
"""Share of refusals from which it is nodes that do not know each other's keys, not a restart now and then."""


def analyze(case: Case) -> list[Finding]:
    """Return one finding per cause and server."""
    found: list[Seen | None] = []
    for server in servers(case, by_process=True):
        found += [_not_offered(server), _shortage(server)]
    for server in servers(case):
        found += [_not_issued(server), _refused(server), _early_refused(server), _early_unused(server)]
    return [finding(case, seen) for seen in found if seen is not None]


def _saved(shakes: Sequence[Shake]) -> float:
    """Return the round trips that resumption would have saved, in ms; unknown where it saves bytes and CPU alone."""
    trips = [shake.waits * shake.rtt_ms for shake in shakes if shake.waits and known(shake.rtt_ms)]
    return sum(trips) if trips else float("nan")


def _ceiling(shakes: Sequence[Shake]) -> Severity | None:
    return None if any(shake.waits for shake in shakes) else Severity.INFO


def _not_offered(server: Server) -> Seen | None:
    """Full handshakes after the server had given something to resume with, and not one that offered it."""
    done = server.completed()
    given = [shake.ended_ns for shake in done if shake.resumable]
    if not given or any(shake.offered != "none" for shake in done):
        return None
    late = [shake for shake in done if shake.full and shake.started_ns > min(given)]
    if len(late) < _HABIT:
        return None
    return saw(
        "tls.resumption-not-offered",
        server,
        late,
        of=len(done),
        confidence=0.9,
        cost_ms=_saved(late),
        ceiling=_ceiling(late),
        note=f"the server gave something to resume with in {len(given)} of {len(done)} handshakes",
        words={"saves": _saves(late)},
    )


def _saves(shakes: Sequence[Shake]) -> str:
    if all(shake.waits for shake in shakes):
        return "a round trip and bytes"
    sizes = [shake.server_flight_bytes for shake in shakes if known(shake.server_flight_bytes)]
    return f"most of {sum(sizes) / len(sizes):.0f} bytes and CPU time" if sizes else "bytes and CPU time"


def _not_issued(server: Server) -> Seen | None:
    done = server.completed()
    without = [shake for shake in done if shake.full and shake.resumable is False]
    if len(without) < _HABIT or len(without) < len(done):
        return None
    return saw(
        "tls.tickets-not-issued",
        server,
        without,
        of=len(done),
        confidence=0.8,
        cost_ms=_saved(without),
        ceiling=_ceiling(without),
    )


def _names_only(server: Server, offered: Sequence[Shake], refused: Sequence[Shake]) -> Seen | None:
    """The server names sessions (TLS 1.2), keeps none of them and gives no ticket: nothing it gives can be used."""
    named = all(shake.offered == "session_id" and not shake.is_13 for shake in offered)
    ticketless = all(shake.tickets_issued == 0 for shake in server.completed())
    if not (named and ticketless and len(refused) == len(offered) >= _HABIT):
        return None
    return saw(
        "tls.tickets-not-issued",
        server,
        refused,
        of=len(server.completed()),
        confidence=0.75,
        cost_ms=_saved(refused),
        ceiling=_ceiling(refused),
        cause="session-ids-forgotten",
        note=f"and of {len(offered)} session ids that the program offered again the server knew none",
    )


def _refused(server: Server) -> Seen | None:
    """One is enough: a session was offered, and the handshake was full all the same."""
    offered = [shake for shake in server.completed() if shake.offers and shake.resumed is not None]
    refused = [shake for shake in offered if shake.full]
    if not refused:
        return None
    unusable = _names_only(server, offered, refused)
    if unusable is not None:
        return unusable
    cause, learned, confidence = _cause(server, offered)
    return saw(
        "tls.resumption-refused",
        server,
        refused,
        of=len(offered),
        confidence=confidence,
        cost_ms=_saved(refused),
        ceiling=_ceiling(refused),
        cause=cause,
        learned=learned,
        note=f"{len(offered) - len(refused)} others were accepted" if len(offered) > len(refused) else "",
    )


_Cause = tuple[str | None, Learned | None, float]


def _cause(server: Server, offered: Sequence[Shake]) -> _Cause:
    """Return why sessions were refused, as far as the order and the times of all handshakes tell."""
    refused = [shake for shake in offered if shake.full]
    accepted = [shake for shake in offered if shake.resumed]
    before = _before(server)
    if all(_changed(before.get(shake.id), shake) for shake in refused):
        return "changed-parameters", None, 0.8
    expired = _expired(before, refused, accepted)
    if expired is not None:
        return "expired", expired, 0.75
    if not accepted:
        return ("always", None, 0.9) if len(refused) > 1 else (None, None, 0.7)
    nodes = {shake.link.remote_ip for shake in server.shakes}
    between = any(refused[0].started_ns < shake.started_ns < refused[-1].started_ns for shake in accepted)
    first = accepted[0].started_ns < refused[0].started_ns
    if first and not between and len(nodes) == 1:
        return "after-reload", None, 0.7 if len(accepted) > 1 else 0.5
    if first and len(nodes) == 1 and len(refused) < _MANY_NODES * len(offered):
        return "after-reload", None, 0.6
    return "some-nodes", None, 0.85 if len(refused) > 1 else 0.5


def _before(server: Server) -> dict[str, Shake]:
    """Return for each handshake the one whose session was most likely offered: the last that was over before."""
    over = sorted(server.completed(), key=lambda shake: shake.ended_ns)
    ends = [shake.ended_ns for shake in over]
    places = {shake.id: bisect_right(ends, shake.started_ns) for shake in over}
    return {name: over[place - 1] for name, place in places.items() if place}


def _changed(before: Shake | None, shake: Shake) -> bool:
    """The server agreed on another version, or on a cipher with another hash, which no session survives."""
    if before is None or None in (before.version, shake.version):
        return False
    return before.version != shake.version or _hash(before) != _hash(shake)


def _hash(shake: Shake) -> str | None:
    return shake.cipher.rsplit("_", 1)[-1] if shake.cipher and shake.is_13 else None


def _expired(before: Mapping[str, Shake], refused: Sequence[Shake], accepted: Sequence[Shake]) -> Learned | None:
    """Return a ticket's lifetime where all refusals, and only they, came after a long pause."""
    pauses, short = (
        [shake.started_ns - before[shake.id].ended_ns for shake in shakes if shake.id in before]
        for shakes in (refused, accepted)
    )
    if len(pauses) < len(refused) or len(pauses) < 2 or not short:
        return None
    least, longest = min(pauses), max(short)
    if least < max(_SHORTEST_LIFETIME_NS, _EXPIRED_FACTOR * longest):
        return None
    return Learned(name="ticket_lifetime", value=least / 1e9, low=longest / 1e9, high=least / 1e9, unit="s")


def _shortage(server: Server) -> Seen | None:
    """A client that resumes, in bursts larger than the tickets it holds."""
    done = server.completed()
    given = min((shake.ended_ns for shake in done if shake.resumable), default=float("inf"))
    offers = [shake.started_ns for shake in done if shake.offers]
    late = [shake for shake in done if shake.full and shake.offered == "none" and shake.started_ns > given]
    without = [shake for shake in late if _near(offers, shake.started_ns)]
    if len(without) < _HABIT:
        return None
    return saw(
        "tls.ticket-shortage",
        server,
        without,
        of=len(done),
        confidence=0.7,
        cost_ms=_saved(without),
        ceiling=_ceiling(without),
    )


def _near(times: Sequence[float], at: float) -> bool:
    """Tell whether one of the sorted instants lies in the same moment."""
    place = bisect_left(times, at - _BURST_NS)
    return place < len(times) and times[place] <= at + _BURST_NS


def _early_refused(server: Server) -> Seen | None:
    """Early data was sent along and had to be sent again, though the session itself was accepted."""
    tried = [shake for shake in server.completed() if shake.early_data in ("accepted", "refused")]
    refused = [shake for shake in tried if shake.early_data == "refused" and (shake.resumed or shake.hello_retry)]
    if not refused:
        return None
    trips = [shake.rtt_ms for shake in refused if known(shake.rtt_ms)]
    return saw(
        "tls.early-data-refused",
        server,
        refused,
        of=len(tried),
        confidence=0.85,
        cost_ms=sum(trips) if trips else float("nan"),
        note=f"{milliseconds(trips[0])} a round trip" if trips else "",
    )


def _early_unused(server: Server) -> Seen | None:
    """The server takes early data, as some handshakes showed, and most that resume send none."""
    resumed = [shake for shake in server.completed() if shake.resumed and shake.is_13]
    allowed = any(shake.early_data == "accepted" for shake in resumed)
    unused = [shake for shake in resumed if shake.early_data == "none"]
    if not allowed or len(unused) < _HABIT:
        return None
    return saw("tls.early-data-unused", server, unused, of=len(resumed), confidence=0.6, ceiling=Severity.INFO)
