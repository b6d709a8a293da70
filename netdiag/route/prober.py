# SPDX-License-Identifier: Apache-2.0
"""Who sends probes: the protocol, what is asked of it, and a fake that answers from a stored measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol as Interface
from typing import TypeAlias

from netdiag.route.model import Connect, Ended, Flow, Measurement, Method, Odd, Probe, Protocol, Trace

__all__ = ["POP_HEADERS", "ConnectRequest", "FakeProber", "OddRequest", "Prober", "Seen", "TraceRequest"]

Seen: TypeAlias = Callable[[Sequence[Probe], int], None]
"""Is told the probes so far, and how many bursts will follow."""

POP_HEADERS = ("cf-ray", "x-amz-cf-pop", "x-served-by", "server-timing")
"""Headers by which content networks tell which of their places answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """Find the way to an address."""

    ip: str
    port: int = 443
    """Ignored for ICMP."""
    protocol: Protocol = Protocol.TCP
    rounds: int = 1
    """Bursts, a second apart so that routers' limits refill; each asks every hop once per flow."""
    flows: int = 1
    """Flows per burst, with privileges or for UDP; 0: as many as the stopping rule wants within the budget."""
    confidence: float = 0.95
    """Of the stopping rule (`flows=0`)."""
    only: tuple[int, ...] = ()
    """Ask these distances alone, once; none: the whole way."""
    max_ttl: int = 40
    wait_s: float = 1.0
    """Cap of the wait for the target's answer after the last probe of a burst."""
    budget_s: float = 10.0
    """Cap of the whole trace."""
    privileged: bool | None = None
    """None: raw sockets where they are allowed; False: never; True: NotPermitted where they are not."""
    seed: int | None = None
    """Of the random order and numbers; None: from the system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRequest:
    """Open connections to an address, one after the other, each from a source port of its own."""

    ip: str
    port: int = 443
    attempts: int = 10
    wait_s: float = 3.0
    """Cap per connection; a lost SYN is sent again by the kernel after 1 s and shows in `retransmits`."""
    pause_s: float = 0.0
    """Between two attempts."""
    server_name: str | None = None
    """Shake hands in TLS under this name; None: TCP only."""
    tls_attempts: int = 0
    """How many of the attempts shake hands (the first ones)."""
    http_attempts: int = 0
    """How many of those also send one `HEAD /` and keep `headers` of the answer."""
    headers: tuple[str, ...] = POP_HEADERS
    """Lower-case names of the headers to keep; all of them must be in `probes/headers.toml`."""
    landmark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OddRequest:
    """Find out what happens to unusual packets."""

    ip: str
    port: int = 443
    server_name: str | None = None
    """Send ClientHellos of two sizes under this name; None: none."""
    raw: bool = False
    """Send unusual SYNs; needs CAP_NET_RAW and Scapy."""
    last_ttl: int = 30
    """Distance of the target, as far as known."""


class Prober(Interface):
    """Sends what is asked and tells what came back; it never raises for what the network does."""

    def trace(self, request: TraceRequest, *, seen: Seen | None = None) -> Trace:
        """Return the probes to one address. NotPermitted where privileges were demanded and are missing.

        `seen` is told, in the thread that traces, whenever a burst is over and another will follow.
        """
        ...

    def inside_own(self, request: TraceRequest, server_name: str) -> Trace:
        """Return the way of a connection's own segments; it is opened for that. NotPermitted without raw sockets."""
        ...

    def connect(self, request: ConnectRequest) -> Connect:
        """Return the connections to one address."""
        ...

    def odd(self, request: OddRequest) -> Odd:
        """Return unusual probes to one address. NotPermitted or Unsupported where `raw` cannot be had."""
        ...


class FakeProber:
    """Answers from a stored measurement; what it does not hold ends as failed, silent or without attempts."""

    def __init__(self, stored: Measurement) -> None:
        self.stored = stored
        self.requests: list[TraceRequest | ConnectRequest | OddRequest] = []
        """What was asked, in order."""

    def trace(self, request: TraceRequest, *, seen: Seen | None = None) -> Trace:  # noqa: ARG002 - it has no bursts
        """Return the first stored trace to that address by that protocol."""
        self.requests.append(request)
        wanted = (request.ip, request.protocol)
        for trace in self.stored.traces:
            if (trace.ip, trace.protocol) == wanted:
                return trace
        return _nothing(request)

    def inside_own(self, request: TraceRequest, server_name: str) -> Trace:  # noqa: ARG002 - nothing is opened
        """Return the first stored trace of that kind."""
        self.requests.append(request)
        stored = (one for one in self.stored.traces if (one.ip, one.method) == (request.ip, Method.IN_SESSION))
        return next(stored, _nothing(request))

    def connect(self, request: ConnectRequest) -> Connect:
        """Return the stored connections to that address, no more than were asked for."""
        self.requests.append(request)
        for connect in self.stored.connects:
            if (connect.ip, connect.port) == (request.ip, request.port):
                return replace(connect, attempts=connect.attempts[: request.attempts], landmark=request.landmark)
        return Connect(ip=request.ip, port=request.port, attempts=(), landmark=request.landmark)

    def odd(self, request: OddRequest) -> Odd:
        """Return the stored unusual probes to that address."""
        self.requests.append(request)
        return next((one for one in self.stored.odd if one.ip == request.ip), Odd(ip=request.ip, port=request.port))


def _nothing(request: TraceRequest) -> Trace:
    return Trace(
        ip=request.ip,
        port=None if request.protocol is Protocol.ICMP else request.port,
        protocol=request.protocol,
        method=Method.IMPORTED,
        privileged=False,
        started_ns=0,
        duration_ms=0.0,
        flows=(Flow(id=0),),
        single_flow=False,
        probes=(),
        ended=Ended.FAILED,
        wait_ms=request.wait_s * 1000,
        error="the stored measurement holds no trace to this address",
    )
