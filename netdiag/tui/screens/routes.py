# SPDX-License-Identifier: Apache-2.0
"""The ways to the hosts, as the newest stored checks of `netdiag route-check` tell them: no packet is sent for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult

from netdiag.render.route_map import stops
from netdiag.render.route_shown import network, place
from netdiag.render.route_table import headline, why
from netdiag.text import safe
from netdiag.tui import look
from netdiag.tui.messages import Chosen
from netdiag.tui.model import Snapshot
from netdiag.tui.screens.page import Page
from netdiag.tui.widgets.facts import Facts
from netdiag.tui.widgets.table import Column, Line, Table
from netdiag.units import UNKNOWN, format_ms

__all__ = ["RoutesPage", "hosts_of"]

_HOSTS = (
    Column(title="host", width=28, grow=1, least=16),
    Column(title="verdict", width=16),
    Column(title="round trip", width=10, right=True),
    Column(title="places", width=30, grow=2, least=14),
    Column(title="checked (UTC)", width=16, rank=1),
)
_HOPS = (
    Column(title="hop", width=3, right=True),
    Column(title="address", width=15, grow=1, least=13),
    Column(title="AS", width=20, grow=1, least=12, rank=1),
    Column(title="place", width=18),
    Column(title="ms", width=8, right=True),
    Column(title="why", width=24, grow=2, least=12, rank=2),
)
_MOST_LINES = 6


class RoutesPage(Page):
    """Hosts on top; the hops to the one under the cursor below."""

    TITLE_TEXT: ClassVar[str] = "routes"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("enter", "its hops"), ("tab", "other list"), ("esc", "back"))

    def __init__(self, routes: Mapping[str, Mapping[str, Any]]) -> None:
        """`routes`: documents `netdiag.route/1` by host."""
        super().__init__()
        self._routes = routes
        self._host: str | None = next(iter(routes), None)

    def content(self) -> ComposeResult:
        """Lay out the parts."""
        yield Table(_HOSTS, empty="no host was seen so far", id="ways")
        yield Facts()
        yield Table(_HOPS, empty="", id="rows")

    def show(self, snapshot: Snapshot) -> None:
        """Draw the snapshot's hosts, those that were checked first."""
        hosts = sorted({*hosts_of(snapshot), *self._routes}, key=lambda host: (host not in self._routes, host))
        ways = self.query_one("#ways", Table)
        ways.fill([Line(key=host, cells=_way(host, self._routes.get(host))) for host in hosts])
        ways.styles.height = 1 + max(1, min(_MOST_LINES, len(hosts)))
        self._draw()

    def on_chosen(self, event: Chosen) -> None:
        """Show the hops to a host."""
        if event.source == "ways":
            self._host = event.key
            self._draw()

    def _draw(self) -> None:
        rows, facts = self.query_one("#rows", Table), self.query_one(Facts)
        document = None if self._host is None else self._routes.get(self._host)
        if document is None:
            host = self._host or "HOST"
            facts.tell((("not known", f"netdiag route-check {safe(host)} measures the way, and keeps it"),))
            rows.fill(())
            return
        word, sentence, _ = headline(document)
        path = _path(document)
        told = [("way", f"{safe(self._host or '')}: {word}, {sentence}")]
        steps = [] if path is None else path["as_path"]
        if steps:
            told.append(("AS path", " → ".join(f"{one['asn']}{'' if one['certain'] else '?'}" for one in steps)))
        if path is not None and not path["reached"]:
            told.append(("end", f"the target did not answer ({safe(str(path['ended']))})"))
        facts.tell(told)
        rows.fill([] if path is None else list(_hops(path)))


def hosts_of(snapshot: Snapshot) -> list[str]:
    """Return the hosts that are talked to, without ports, in order."""
    found = [row.host for row in snapshot.rows if row.host]
    return list(dict.fromkeys(_bare(host) for host in found))


def _bare(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name.strip("[]") if colon and port.isdigit() and (":" not in name or name.startswith("[")) else host


def _path(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    paths = document["paths"]
    return next((one for one in paths if one["reached"]), paths[0] if paths else None)


def _way(host: str, document: Mapping[str, Any] | None) -> tuple[Any, ...]:
    if document is None:
        return safe(host), ("not checked", "dim"), UNKNOWN, UNKNOWN, UNKNOWN
    word, _, style = headline(document)
    path = _path(document)
    number = document["paths"].index(path) if path is not None else 0
    trips = [one["connect_ms"]["min"] for one in document["addresses"] if one["connect_ms"]["min"] is not None]
    cities = " → ".join(safe(str(one["city"] or "?")) for one in stops(document, number))
    at = str(document["started"])[:16].replace("T", " ")
    return (
        safe(host),
        (word.lower(), look.SEVERITY_STYLES.get(style, "")),
        format_ms(min(trips)) if trips else UNKNOWN,
        cities or UNKNOWN,
        safe(at),
    )


def _hops(path: Mapping[str, Any]) -> Iterable[Line]:
    for hop in path["hops"]:
        if not hop["responders"]:
            silent = (str(hop["ttl"]), ("no answer", "dim"), "", "", "", ("silent, not loss", "dim"))
            yield Line(key=hop["ttl"], cells=silent)
        for at, one in enumerate(hop["responders"][:3]):
            shortest = min(one["rtt_ms"], default=None)
            yield Line(
                key=(hop["ttl"], at),
                cells=(
                    str(hop["ttl"]) if at == 0 else "",
                    safe(one["ip"]),
                    network(one),
                    place(one),
                    UNKNOWN if shortest is None else f"{shortest:.1f}",
                    why(hop, one),
                ),
            )
