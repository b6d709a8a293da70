# SPDX-License-Identifier: Apache-2.0
"""Handshakes that take long or fail: retries, old versions, long flights, slow sides, alerts, contexts built anew."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case
from netdiag.analysis.links import NAN, Link, column, known
from netdiag.analysis.tls_chains import Chains, incomplete_chain
from netdiag.analysis.tls_contexts import built_anew
from netdiag.analysis.tls_shakes import INITIAL_WINDOW, Server, Shake, saw, segment, servers
from netdiag.findings import Finding, Severity

__all__ = ["analyze"]

_HABIT = 3
_SLOW_MS, _SLOW_TRIPS = 50.0, 3.0
_RECORD_HEADER = 5
_CONTEXT_MS, _CONTEXT_LIMIT_MS = 10.0, 250.0
"""Less is a scheduler's noise; more is a program that connected ahead of need."""
_OLD = ("TLSv1.2", "TLSv1.1", "TLSv1", "SSLv3")
_DEPRECATED = _OLD[1:]
"""RFC 8996."""
_EXIT_NS = 150e6


def analyze(case: Case) -> list[Finding]:
    """Return one finding per cause and server."""
    found: list[Seen | None] = []
    resent, chains = _resent(case), Chains(case)
    for server in servers(case):
        found += [_retry(server), _old_version(server), _large_flight(server), _slow_server(server)]
        found += [_slow_client(server), _contexts(server)]
        failed = [shake for shake in server.shakes if shake.outcome == "failed" and not _at_exit(case, shake)]
        large, incomplete = _large_hello(server, resent), incomplete_chain(server, failed, chains)
        explained = {link.row for link in large.links if not link.bytes_received > 0} if large else set()
        explained |= {link.row for link in incomplete.links} if incomplete else set()
        found += [large, incomplete, _failed(server, [one for one in failed if one.link.row not in explained])]
    return [finding(case, seen) for seen in found if seen is not None]


def _trips(shakes: Sequence[Shake]) -> float:
    """Return one round trip for each, in ms."""
    trips = [shake.rtt_ms for shake in shakes if known(shake.rtt_ms)]
    return sum(trips) if trips else NAN


def _retry(server: Server) -> Seen | None:
    done = server.completed()
    retried = [shake for shake in done if shake.hello_retry]
    if len(retried) < _HABIT:
        return None
    groups = sorted({shake.group for shake in retried if shake.group})
    return saw(
        "tls.hello-retry",
        server,
        retried,
        of=len(done),
        confidence=0.95,
        cost_ms=_trips(retried),
        cause=groups[0] if len(groups) == 1 else None,
        words={"group": groups[0] if len(groups) == 1 else "another group"},
    )


def _old_version(server: Server) -> Seen | None:
    """TLS 1.2 costs a full handshake one more round trip; what is older is deprecated, once is enough."""
    done = server.completed()
    old = [shake for shake in done if shake.version in _OLD and shake.full]
    deprecated = [shake for shake in done if shake.version in _DEPRECATED]
    if len(old) < _HABIT and not deprecated:
        return None
    chosen = old if len(old) >= _HABIT else deprecated
    versions = sorted({shake.version or "" for shake in chosen})
    return saw(
        "tls.old-version",
        server,
        chosen,
        of=len(done),
        confidence=0.95,
        cost_ms=_trips([shake for shake in chosen if shake.full]),
        cause=versions[0],
        words={"version": ", ".join(versions)},
    )


def _resent(case: Case) -> dict[int, list[float]]:
    rows: dict[int, list[float]] = {}
    table = case.tables.retransmits
    for row, at in zip(column(table, "connection"), column(table, "at_ns"), strict=True):
        rows.setdefault(int(row), []).append(float(at))
    return rows


def _large_hello(server: Server, resent: dict[int, list[float]]) -> Seen | None:
    """A ClientHello of more than one segment that was sent again, or that a reset answered."""
    large = [shake for shake in server.shakes if shake.client_hello_bytes + _RECORD_HEADER > segment(shake.link)]
    lost = {shake.id: _last_resent(shake, resent) for shake in large}
    again = [shake for shake in large if known(lost[shake.id])]
    reset = [shake for shake in large if shake not in again and _reset(shake)]
    if any(_reset(shake) for shake in server.shakes if shake not in large):
        reset = []  # smaller ones fare no better
    if not again and not reset:
        return None
    hurt = sorted([*again, *reset], key=lambda shake: shake.started_ns)
    waited = sum((lost[shake.id] - shake.started_ns) / 1e6 for shake in again)
    return saw(
        "tls.large-client-hello",
        server,
        hurt,
        of=len(large),
        confidence=0.7 if again else 0.5,
        cost_ms=waited if again else NAN,
        cause="lost" if again else "reset",
        severity=Severity.CRITICAL if all(shake.outcome == "failed" for shake in server.shakes) else None,
        breaks=any(not shake.completed for shake in hurt),
        words={"bytes": f"{max(shake.client_hello_bytes for shake in hurt):,.0f}"},
    )


def _last_resent(shake: Shake, resent: dict[int, list[float]]) -> float:
    """Return when a segment was last sent again before the server spoke; NaN where none was."""
    answer = min([at for at in (shake.link.first_received_ns, shake.link.closing_ns) if known(at)], default=NAN)
    inside = [at for at in resent.get(shake.link.row, ()) if at >= shake.started_ns and not at > answer]
    return max(inside, default=NAN)


def _reset(shake: Shake) -> bool:
    """The other side answered the ClientHello with a reset."""
    link = shake.link
    return link.closed_by == "remote" and link.close == "rst" and not link.bytes_received > 0


def _large_flight(server: Server) -> Seen | None:
    """The server's certificates do not fit into the segments that it may send at once."""
    done = [shake for shake in server.completed() if shake.full]
    large = [shake for shake in done if shake.server_flight_bytes > INITIAL_WINDOW * segment(shake.link)]
    if not large:
        return None
    waited = [shake for shake in large if shake.long_flight]
    return saw(
        "tls.large-server-flight",
        server,
        large,
        of=len(done),
        confidence=0.9,
        cost_ms=_trips(waited) if waited else 0.0,
        note="" if waited else "the segments of this path are so large that it did not wait here",
        words={"bytes": f"{max(shake.server_flight_bytes for shake in large):,.0f}"},
    )


def _slow(value: float, shake: Shake) -> bool:
    """Above the floor, and far above the round trip."""
    return value >= max(_SLOW_MS, _SLOW_TRIPS * shake.rtt_ms if known(shake.rtt_ms) else 0.0)


def _slow_server(server: Server) -> Seen | None:
    done = server.completed()
    slow = [shake for shake in done if _slow(shake.server_ms, shake)]
    if len(slow) < _HABIT or len(slow) < 0.5 * len(done):
        return None
    times = [shake.server_ms for shake in slow]
    return saw(
        "tls.slow-server",
        server,
        slow,
        of=len(done),
        confidence=0.85,
        cost_ms=sum(times),
        note=f"it took a median of {milliseconds(median(times))} beyond the round trip",
        words={"time": milliseconds(median(times))},
    )


def _slow_client(server: Server) -> Seen | None:
    done = server.completed()
    slow = [shake for shake in done if _slow(shake.client_ms, shake)]
    if len(slow) < _HABIT or len(slow) < 0.5 * len(done):
        return None
    times = [shake.client_ms for shake in slow]
    return saw(
        "tls.slow-client",
        server,
        slow,
        of=len(done),
        confidence=0.8,
        cost_ms=sum(times),
        note=f"a median of {milliseconds(median(times))} from the server's flight to the program's Finished",
        words={"time": milliseconds(median(times))},
    )


def _failed(server: Server, failed: Sequence[Shake]) -> Seen | None:
    """One is enough: an alert, or an end without a Finished that was not the end of the program."""
    if not failed:
        return None
    times = [(shake.link.closing_ns - shake.started_ns) / 1e6 for shake in failed if known(shake.link.closing_ns)]
    causes = sorted({_why(shake) for shake in failed})
    always = len(failed) == len(server.shakes)
    return saw(
        "tls.handshake-failed",
        server,
        failed,
        of=len(server.shakes),
        confidence=0.95 if all(shake.alert for shake in failed) else 0.8,
        cost_ms=sum(times) if times else NAN,
        cause=causes[0] if len(causes) == 1 else "several",
        severity=Severity.CRITICAL if always or len(failed) >= _HABIT else Severity.WARNING,
        note=f"tried {len(failed)} times" if always and len(failed) > 1 else "",
        words={"why": ", ".join(_WORDS.get(cause, f"alert {cause}") for cause in causes)},
    )


_WORDS = {
    "closed-by-client": "the program gave up after the server answered, as with a certificate that it does not trust",
    "gave-up": "the program closed before an answer came",
    "closed-by-server": "the server closed the connection",
    "reset": "the server reset the connection",
    "timeout": "no answer came",
}


def _why(shake: Shake) -> str:
    """Return the alert where one was in the clear, else who ended it."""
    link = shake.link
    if shake.alert:
        return shake.alert
    if link.close == "timeout":
        return "timeout"
    if link.closed_by == "remote":
        return "reset" if link.close == "rst" else "closed-by-server"
    return "closed-by-client" if link.bytes_received > 0 else "gave-up"


def _at_exit(case: Case, shake: Shake) -> bool:
    """The end of the program or of the trace cut it off."""
    link = shake.link
    process = case.processes.get(link.pid)
    end = process.ended_ns if process and known(process.ended_ns) else case.tables.span_ms * 1e6
    cut = link.closed_by == "local" and link.closing_ns >= end - _EXIT_NS and not link.bytes_received > 0
    return shake.alert is None and (cut or link.closed_by is None)


def _contexts(server: Server) -> Seen | None:
    """The program works for long between connecting and its ClientHello, each time anew: in the library, if seen."""
    if any(known(shake.link.contexts) for shake in server.completed()):
        return built_anew(server)
    pauses = [(shake, _pause_ms(shake.started_ns, shake.link)) for shake in server.completed()]
    built = [(shake, pause) for shake, pause in pauses if _CONTEXT_MS <= pause <= _CONTEXT_LIMIT_MS]
    if len(built) < _HABIT or len(built) < 0.8 * len(pauses):
        return None
    times = [pause for _, pause in built]
    return saw(
        "tls.context-per-client",
        server,
        [shake for shake, _ in built],
        of=len(pauses),
        confidence=0.6,
        cost_ms=sum(times),
        ceiling=Severity.INFO,
        note=f"a median of {milliseconds(median(times))} of the program's own work before each handshake",
        words={"time": milliseconds(median(times))},
    )


def _pause_ms(hello_ns: float, link: Link) -> float:
    return (hello_ns - link.established_ns) / 1e6
