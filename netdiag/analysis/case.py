# SPDX-License-Identifier: Apache-2.0
"""What every analysis works on: the tables once prepared, connections grouped by program and host, and the options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netdiag.analysis.answers import with_answers
from netdiag.analysis.http_calls import Asked, asked_of
from netdiag.analysis.http_rows import Index
from netdiag.analysis.late import with_late
from netdiag.analysis.links import NAN, Link, column, known, links_of, number, text, with_contexts, with_handshakes
from netdiag.analysis.names import with_names

if TYPE_CHECKING:
    import pandas as pd

    from netdiag.tables import Tables

__all__ = ["Case", "Group", "Options", "Process", "prepare"]

_MS = 1e6
_DNS_PORT = 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user may set."""

    slow_ms: float = 500.0
    """A server that needs longer than this is slow, milliseconds."""
    far_ms: float = 80.0
    """A round trip from which a server is far, milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What the analyses need of a process; None and NaN where unknown."""

    pid: float
    ppid: float
    exe: str | None
    comm: str | None
    started_ns: float
    ended_ns: float
    libraries: tuple[str, ...]
    """Names of the client libraries that it has loaded."""
    installed: tuple[str, ...] = ()
    """Names of those that are only installed beside it; empty when a loaded one is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The client connections of one program to one host and port, by time of opening."""

    pid: float
    host: str
    """Name where known, else address; with the port."""
    links: tuple[Link, ...]
    process: Process | None

    @property
    def calls(self) -> float:
        """Application requests on these connections, a connection with unknown requests counted by its turns."""
        return sum(link.app for link in self.links if known(link.app))

    @property
    def exact(self) -> bool:
        """Every connection's requests were counted, none estimated."""
        return all(link.exact for link in self.links)

    @property
    def end_ns(self) -> float:
        """When the program ended, NaN when it still ran."""
        return self.process.ended_ns if self.process else NAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One recording, prepared."""

    tables: Tables
    options: Options
    links: tuple[Link, ...]
    groups: tuple[Group, ...]
    processes: Mapping[float, Process]
    total_ms: float
    """Time that requests took, milliseconds; NaN when nothing was measured."""
    asked: Mapping[int, tuple[Asked, ...]] = field(default_factory=dict)
    """The requests of the traced clients, by time, under the row of their connection."""
    rows: Index
    """The tables by connection, request or process."""

    def asked_by(self, group: Group) -> tuple[Asked, ...]:
        """Return the requests on a group's connections, by time."""
        found = [call for link in group.links for call in self.asked.get(link.row, ())]
        return tuple(sorted(found, key=lambda call: call.row))

    @property
    def clients(self) -> tuple[Link, ...]:
        """Connections that the traced programs opened."""
        return tuple(link for link in self.links if link.role == "client")


def prepare(tables: Tables, options: Options) -> Case:
    """Return the case for a recording's tables."""
    links = links_of(tables.connections, tables.turns, tables.requests)
    # one name: no more than two editions of all connections are in memory
    links = with_handshakes(links, tables.handshakes)
    links = with_names(links, tables.requests)
    links = with_contexts(links, tables.tls_calls, tables.contexts)
    links = with_late(links, tables.records)
    links = with_answers(links, tables.bursts)
    processes = {process.pid: process for process in _processes(tables.processes)}
    groups = _groups([link for link in links if link.role == "client"], processes)
    return Case(
        tables=tables,
        options=options,
        links=links,
        groups=groups,
        processes=processes,
        total_ms=_total_ms(tables.requests, links),
        rows=Index(tables),
        asked=_by_link(asked_of(tables.requests, links)),
    )


def _by_link(asked: Sequence[Asked]) -> dict[int, tuple[Asked, ...]]:
    found: dict[int, list[Asked]] = {}
    for call in asked:
        found.setdefault(call.link.row, []).append(call)
    return {row: tuple(calls) for row, calls in found.items()}


def _processes(frame: pd.DataFrame) -> list[Process]:
    names = ("pid", "ppid", "exe", "comm", "started_ns", "ended_ns", "libraries")
    return [_process(*cells) for cells in zip(*(column(frame, name) for name in names), strict=True)]


def _process(pid: Any, ppid: Any, exe: Any, comm: Any, started: Any, ended: Any, libraries: Any) -> Process:
    found = [item for item in libraries if item.get("name")] if isinstance(libraries, (list, tuple)) else []
    loaded = tuple(str(item["name"]) for item in found if not _guess(item))
    return Process(
        pid=number(pid),
        ppid=number(ppid),
        exe=text(exe),
        comm=text(comm),
        started_ns=number(started),
        ended_ns=number(ended),
        libraries=loaded,
        installed=() if loaded else tuple(str(item["name"]) for item in found),
    )


def _guess(library: Mapping[str, Any]) -> bool:
    return str(library.get("evidence") or "").startswith("installed")


def _groups(clients: Sequence[Link], processes: Mapping[float, Process]) -> tuple[Group, ...]:
    found: dict[tuple[float, str, str | None], list[Link]] = {}
    for link in clients:
        # packets do not name processes: then an address stands for who calls
        who = (link.pid, None) if known(link.pid) else (-1.0, link.local_ip)
        found.setdefault((who[0], host_of(link), who[1]), []).append(link)
    return tuple(
        Group(
            pid=pid if pid >= 0 else NAN,
            host=host,
            links=tuple(sorted(links, key=_opened)),
            process=processes.get(pid),
        )
        for (pid, host, _), links in found.items()
    )


def host_of(link: Link) -> str:
    """Return what names the server: its name where known, else its address, and the port."""
    if link.remote_name and known(link.remote_port):
        return f"{link.remote_name}:{int(link.remote_port)}"
    return link.remote


def _opened(link: Link) -> tuple[float, int]:
    return (link.opened_ns if known(link.opened_ns) else -1.0, link.row)


def _total_ms(requests: pd.DataFrame, links: Sequence[Link]) -> float:
    """Return the measured time of requests where most were seen as such, else the busy time of connections."""
    measured = [value for value in map(number, column(requests, "total_ms")) if known(value)]
    clients = [link for link in links if link.role == "client"]
    counted = sum(link.app for link in clients if known(link.app))
    if measured and len(measured) >= 0.9 * counted:
        return float(sum(measured))
    busy = sum(link.busy_ms for link in clients)
    return busy if busy > 0 else NAN
