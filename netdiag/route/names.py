# SPDX-License-Identifier: Apache-2.0
"""Questions to name servers: the host's addresses, HTTPS records, names of routers, origins of blocks.

Each question is one `Lookup`; each server asked is counted. No question is sent that the caller did not name. Answers
are foreign text, kept short, and escaped by whoever shows them.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import dns.edns
import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype

from netdiag.route.model import Asked, Lookup
from netdiag.route.resolvers import exchange, system_resolvers
from netdiag.route.vantage import point_of

__all__ = ["MOST_POINTERS", "Names", "subnet_of", "system_resolvers"]

MOST_POINTERS = 256
"""Routers whose names are asked for, at most."""

_TIMEOUT_S = 2.0
_PATIENCE_MS = 1000.0
"""A C library that waited this long, or was told no, may have asked every server that it has."""
_PARALLEL = 16
_MOST_ANSWERS = 32
_MOST_TEXT = 512
_PORT = 53


def subnet_of(ip: str) -> str | None:
    """Return the client subnet that resolvers send of a public address (/24, /56); None for any other address."""
    address = ipaddress.ip_address(ip)
    if not address.is_global:
        return None
    return str(ipaddress.ip_network(f"{ip}/{24 if address.version == 4 else 56}", strict=False))


class Names:
    """Asks, and remembers what was asked. `base_ns`: the measurement's zero on CLOCK_MONOTONIC."""

    def __init__(self, base_ns: int, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._base_ns = base_ns
        self._timeout_s = timeout_s
        self._asked: Counter[tuple[str, int]] = Counter()
        self.lookups: list[Lookup] = []

    @property
    def asked(self) -> tuple[Asked, ...]:
        """Return every server that got a question."""
        rows = sorted(self._asked.items())
        return tuple(Asked(purpose="dns", address=ip, port=port, count=count) for (ip, port), count in rows)

    def addresses(self, host: str, families: Sequence[int]) -> list[str]:
        """Return what the system's resolver gives a program for a host; its servers are counted as asked."""
        began = time.monotonic_ns()
        found: dict[str, list[str]] = {"A": [], "AAAA": []}
        error = None
        try:
            for family, *_, place in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
                kind = "A" if family == socket.AF_INET else "AAAA"
                if str(place[0]).partition("%")[0] not in found[kind]:
                    found[kind].append(str(place[0]).partition("%")[0])
        except OSError as failed:
            error = failed.strerror or str(failed)
        except UnicodeError:
            error = "no host name"
        took = (time.monotonic_ns() - began) / 1e6
        for kind, version in (("A", 4), ("AAAA", 6)):
            if version in families:
                self.lookups.append(
                    Lookup(
                        resolver="system",
                        name=host,
                        qtype=kind,
                        at_ns=began - self._base_ns,
                        duration_ms=took,
                        answers=tuple(found[kind][:_MOST_ANSWERS]),
                        error=error,
                    )
                )
        further = error is not None or took >= _PATIENCE_MS
        for server in system_resolvers()[: None if further else 1]:
            self._asked[server, _PORT] += len(families)
        kinds = [kind for kind, version in (("A", 4), ("AAAA", 6)) if version in families]
        return [ip for kind in kinds for ip in found[kind]]

    def ask_all(self, servers: Iterable[str], host: str, kinds: Sequence[str], subnet: str | None = None) -> None:
        """Ask each server for each kind of record; with a subnet once more with it (ECS)."""
        servers = tuple(servers)
        jobs: list[tuple[str, str, str, str | None]] = [
            (server, host, kind, None) for server in servers for kind in kinds
        ]
        if subnet is not None:
            jobs += [(server, host, kind, subnet) for server in servers for kind in kinds if kind in ("A", "AAAA")]
        self._run(jobs)

    def pointers(self, server: str, ips: Iterable[str]) -> None:
        """Ask a server for the names of addresses that were not asked for yet, at most `MOST_POINTERS` in all."""
        known = {look.name for look in self.lookups if look.qtype == "PTR"}
        points = [point for point in dict.fromkeys(map(point_of, ips)) if point not in known]
        jobs: list[tuple[str, str, str, str | None]] = []
        jobs += [(server, point, "PTR", None) for point in points[: max(0, MOST_POINTERS - len(known))]]
        self._run(jobs)

    def origins(self, server: str, ips: Iterable[str]) -> None:
        """Ask Team Cymru's zones, through a server, who announces addresses; then for the names of those networks."""
        from netdiag.route.data import cymru_origins

        jobs: list[tuple[str, str, str, str | None]] = []
        for ip in dict.fromkeys(ips):
            labels = point_of(ip).rsplit(".", 2)[0]
            zone = "origin6" if ":" in ip else "origin"
            jobs.append((server, f"{labels}.{zone}.asn.cymru.com", "TXT", None))
        self._run(jobs[:MOST_POINTERS])
        numbers = {origin.asn for origin in cymru_origins(self.lookups).values()}
        self._run([(server, f"AS{number}.asn.cymru.com", "TXT", None) for number in sorted(numbers)])

    def _run(self, jobs: Sequence[tuple[str, str, str, str | None]]) -> None:
        if not jobs:
            return
        with ThreadPoolExecutor(max_workers=min(_PARALLEL, len(jobs))) as pool:
            for lookup in pool.map(lambda job: self._ask(*job), jobs):
                self.lookups.append(lookup)
                self._asked[lookup.resolver, _PORT] += 1

    def _ask(self, server: str, name: str, kind: str, subnet: str | None) -> Lookup:
        began = time.monotonic_ns()
        answers: tuple[str, ...] = ()
        error: str | None = None
        try:
            query = _query(name, kind, subnet)
            reply = exchange(query, server, timeout_s=self._timeout_s, port=_PORT)
            answers = _answers(reply, kind)
            code = reply.rcode()
            error = None if code == dns.rcode.NOERROR else dns.rcode.to_text(code)
        except TimeoutError:
            error = "timeout"
        except (dns.exception.DNSException, OSError, ValueError, EOFError) as failed:
            error = (str(failed) or type(failed).__name__)[:_MOST_TEXT]
        return Lookup(
            resolver=server,
            name=name,
            qtype=kind,
            at_ns=began - self._base_ns,
            subnet=subnet,
            duration_ms=(time.monotonic_ns() - began) / 1e6,
            answers=answers,
            error=error,
        )


def _query(name: str, kind: str, subnet: str | None) -> dns.message.QueryMessage:
    options: list[dns.edns.Option] = []
    if subnet is not None:
        address, _, bits = subnet.partition("/")
        options.append(dns.edns.ECSOption(address, int(bits)))
    return dns.message.make_query(name, kind, use_edns=0, payload=1232, options=options)


def _answers(reply: dns.message.Message, kind: str) -> tuple[str, ...]:
    wanted = dns.rdatatype.from_text(kind)
    texts = [row.to_text()[:_MOST_TEXT] for block in reply.answer if block.rdtype == wanted for row in block]
    if kind == "PTR":
        texts = [text.rstrip(".") for text in texts]
    return tuple(texts[:_MOST_ANSWERS])
