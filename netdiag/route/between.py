# SPDX-License-Identifier: Apache-2.0
"""What is done while a trace waits for its next burst: routers' names are asked for, silent hops get another protocol.

Bursts are a second apart, so none of it takes time of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from netdiag.route.model import Ended, Probe, Protocol, Trace
from netdiag.route.names import Names
from netdiag.route.plan import Plan
from netdiag.route.prober import Prober, Seen, TraceRequest
from netdiag.route.replies import from_target
from netdiag.route.resolvers import system_resolvers

__all__ = ["Between"]

_SECOND = (Protocol.UDP, Protocol.ICMP)
_MOST_SILENT = 24
_SUSPICIOUS = 3
"""A target this near may be a proxy that answers TCP for it: the others are asked the whole way."""
_BUDGET_S = 2.5


class Between:
    """Work beside the traces of one check, until the block is left."""

    def __init__(self, plan: Plan, prober: Prober, names: Names) -> None:
        self._plan, self._prober, self._names = plan, prober, names
        servers = plan.resolvers[:1] or system_resolvers()[:1]
        self._server = servers[0] if servers and plan.names and not plan.offline else None
        self._asking = ThreadPoolExecutor(max_workers=1)
        self._probing = ThreadPoolExecutor(max_workers=4)
        self._second: list[Future[Trace]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._probing.shutdown()
        self._asking.shutdown()

    def told(self, ip: str) -> Seen:
        """Return what the trace to an address is to call."""

        def seen(probes: Sequence[Probe], left: int) -> None:
            if self._server is not None:
                answered = [probe.reply.ip for probe in probes if probe.reply is not None]
                self._asking.submit(self._names.pointers, self._server, answered)
            if left == 1 and self._plan.protocol is Protocol.TCP:
                self._ask_otherwise(ip, probes)

        return seen

    def traces(self) -> list[Trace]:
        """Return the traces by other protocols; those that this user may not make are left out: nothing was sent."""
        found = [job.result() for job in self._second]
        return [trace for trace in found if trace.ended is not Ended.FAILED]

    def _ask_otherwise(self, ip: str, probes: Sequence[Probe]) -> None:
        end = min((one.ttl for one in probes if not one.far and _is_target(one, ip)), default=None)
        answered = {one.ttl for one in probes if one.reply is not None and not one.far}
        last = end if end is not None else max(answered, default=0) + 1
        silent = [ttl for ttl in range(1, last) if ttl not in answered][:_MOST_SILENT]
        near = end is not None and end <= _SUSPICIOUS
        if not silent and not near:
            return
        for protocol in _SECOND:
            request = TraceRequest(
                ip=ip,
                port=self._plan.port,
                protocol=protocol,
                only=() if near else tuple(silent),
                privileged=self._plan.privileged,
                budget_s=_BUDGET_S,
            )
            self._second.append(self._probing.submit(self._prober.trace, request))


def _is_target(probe: Probe, ip: str) -> bool:
    return probe.reply is not None and from_target(probe.reply, ip=ip, protocol=Protocol.TCP)
