# SPDX-License-Identifier: Apache-2.0
"""Figures and names in the words of a report; an unknown value is a dash, never a zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netdiag.text import safe
from netdiag.units import UNKNOWN, format_count, format_ms

__all__ = [
    "PARTS",
    "address",
    "breaks_off",
    "command",
    "endpoint",
    "lasted",
    "name_of",
    "part",
    "percent",
    "plural",
    "seconds",
    "sources",
    "span",
    "unit",
]

PARTS: dict[str, str] = {
    "dns": "name look-up",
    "connect": "TCP connect",
    "tls": "TLS handshake",
    "client-setup": "client set-up",
    "queue": "waiting for a free connection",
    "send": "sending",
    "server": "server until first byte",
    "receive": "receiving",
    "reader": "read late by the program",
    "unattributed": "unattributed",
}
"""What each part of a request's time is called."""

_SECOND_MS = 1000.0
_MINUTE_S = 120.0


def plural(value: int | None, one: str, many: str | None = None) -> str:
    """Return `1 request`, `2 requests`, `– requests`."""
    return f"{format_count(value)} {one if value == 1 else many or one + 's'}"


def seconds(value_ms: float | None) -> str:
    """Return a duration: `61.4 s`, below a second `41 ms`, from two minutes on `62 min 5 s`."""
    if value_ms is None:
        return f"{UNKNOWN} s"
    if 0 < value_ms < _SECOND_MS:
        return format_ms(value_ms)
    value = value_ms / _SECOND_MS
    if value >= _MINUTE_S:
        minutes, rest = divmod(round(value), 60)
        return f"{minutes:,} min {rest} s"
    return f"{value:.1f} s"


def unit(total_ms: float) -> str:
    """Return the unit for a column of times that add up to a total: `ms`, from ten seconds on `s`."""
    return "ms" if total_ms < 10 * _SECOND_MS else "s"


def span(value_ms: float | None, total_ms: float) -> str:
    """Return a time without unit, as a column of a table has them, in the unit that `unit` says."""
    if value_ms is None:
        return UNKNOWN
    if unit(total_ms) == "s":
        return f"{value_ms / _SECOND_MS:,.2f}"
    return f"{value_ms:,.0f}" if total_ms >= _SECOND_MS else f"{value_ms:,.1f}"


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share from 0 to 1 as per cent; what is there never rounds to 0 and what is missing never to 100."""
    if share is None:
        return UNKNOWN
    text = f"{100 * share:.{digits}f}"
    smallest = 10.0**-digits
    if share > 0 and float(text) == 0:
        return f"<{smallest:g} %"
    if share < 1 and float(text) >= 100:
        return f">{100 - smallest:g} %"
    return f"{text} %"


def address(ip: str | None, port: int | None) -> str:
    """Return `192.0.2.1:443` or `[2001:db8::1]:443`."""
    shown = UNKNOWN if ip is None else f"[{safe(ip)}]" if ":" in ip else safe(ip)
    return shown if port is None else f"{shown}:{port}"


def endpoint(remote: Mapping[str, Any]) -> str:
    """Return name or address of the other end, with its port."""
    return address(remote["name"] or remote["ip"], remote["port"])


def name_of(host: str | None, port: int | None) -> str:
    """Return a host of the summary; the usual HTTPS port is not worth a column."""
    return address(host, None if port == 443 else port)


def lasted(document: Mapping[str, Any]) -> str:
    """Return for how long what was traced ran: CMD itself, not what came before and after it."""
    ran = (document["command"] or {}).get("duration_ms")
    return seconds(document["duration_ms"] if ran is None else ran)


def breaks_off(document: Mapping[str, Any]) -> str | None:
    """Return why the recording ends before what was traced did; None where it ended as it was meant to."""
    reason = document["exit_reason"]
    if reason is None or not (reason in _EARLY_ENDS or reason.startswith(_NO_END)):
        return None
    return f"{safe(_EARLY_ENDS.get(reason, reason))}; what came before is used"


_NO_END = ("the recording breaks off", "unknown: the recording has no end")
"""How the document's reason begins where the recording itself says none."""
_EARLY_ENDS = {
    "front-gone": "netdiag was ended while what it traced ran on",
    "recorder-died": "the recorder ended early",
}


def command(document: Mapping[str, Any]) -> str:
    """Return what was traced, in a few words."""
    if document["command"] is not None and document["command"]["argv"]:
        program, *arguments = document["command"]["argv"]
        return safe(" ".join([program.rsplit("/", 1)[-1] or program, *arguments]))
    target = document["target"]
    named = [f"{label} {_listed(target[key])}" for key, label in _TARGETS.items() if target.get(key)]
    names = target.get("names")
    if isinstance(names, Mapping) and names:
        named = [part for part in named if not part.startswith("host ")] + [
            f"host {_listed(sorted(set(names.values())))}"
        ]
    whole = "a capture" if _is_capture(document) else "the whole machine"
    return safe(", ".join(named)) if named else whole


def _is_capture(document: Mapping[str, Any]) -> bool:
    return bool(document["coverage"]["tier"] == "capture")


_TARGETS = {"pids": "pid", "exe": "exe", "comm": "comm", "cgroup": "cgroup", "port": "port", "hosts": "host"}
"""Members of the header's target, and what each is called."""


def _listed(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def sources(document: Mapping[str, Any]) -> dict[str, str]:
    """Return for each part of a request's time where its figures come from."""
    calls = _joined(row["source"] for row in document["requests"])
    seen = "packets" if _is_capture(document) else "kernel"
    calls = calls.replace("sockets", seen).replace("records", "wire")
    told = {row["source"] for row in document["handshakes"]}
    shakes = ", ".join(name for name in ("wire", "library") if {name, "both"} & told)
    names = _joined(row["source"] for row in document["resolutions"])
    known = dict.fromkeys(("connect", "reader", "queue", "client-setup"), seen)
    by_part = {**dict.fromkeys(("send", "server", "receive"), calls), **known, "tls": shakes, "dns": names}
    own = _own_word(document)
    return {**by_part, "server": own} if own else by_part


def _own_word(document: Mapping[str, Any]) -> str:
    """Return how long the server says that it worked, where it says so of every call; empty otherwise."""
    timed = [row for row in document["requests"] if row["wait_ms"] is not None]
    said = [row["server_reported_ms"] for row in timed if row["server_reported_ms"] is not None]
    return f"it says {format_ms(sum(said))}" if said and len(said) == len(timed) else ""


def part(name: str, document: Mapping[str, Any], *, cells: int | None = None) -> str:
    """Return what a part of the time is called; for TLS with versions, and whether handshakes were full.

    `cells`: so much room there is. What does not fit is said in fewer words, never cut in the middle of one.
    """
    done = [row for row in document["handshakes"] if row["outcome"] == "completed"]
    if name != "tls" or not done:
        return PARTS[name]
    versions = {safe(row["version"]).removeprefix("TLSv") for row in done if row["version"]}
    resumed = sum(row["resumed"] is True for row in done)
    known = sum(row["resumed"] is not None for row in done)
    kind = "full" if resumed == 0 else "resumed" if resumed == len(done) else f"{resumed} of {len(done)} resumed"
    told = sorted(versions)
    detail = [*told, *([kind] if known == len(done) else [])]
    wordings = [(PARTS[name], detail), ("TLS", detail), (PARTS[name], told)]
    texts = [f"{head} ({', '.join(rest)})" for head, rest in wordings if rest]
    return next((text for text in texts if cells is None or len(text) <= cells), PARTS[name])


def _joined(values: Any) -> str:
    return ", ".join(sorted({value for value in values if value}))
