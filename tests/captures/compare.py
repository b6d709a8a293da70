# SPDX-License-Identifier: Apache-2.0
"""netdiag's word on a capture against the servers' and tshark's: each difference, and why it is none."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netdiag.capture.read import read
from netdiag.decode.http.masking import clean_path
from netdiag.decode.tls_names import cipher_name, version_name
from netdiag.tables import Tables, build
from tests.captures.dissector import Stream, dissect
from tests.captures.mangler import Mangled

__all__ = ["Difference", "compare"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one connection on which two disagree."""

    field: str
    ends: tuple[int, int]
    ours: Any
    theirs: Any
    who: str
    why: str | None = None
    """What explains it; None = nothing does."""

    def __str__(self) -> str:
        ports = f"{self.ends[0]}→{self.ends[1]}"
        return f"{ports} {self.field}: netdiag {self.ours!r}, {self.who} {self.theirs!r} ({self.why or 'UNEXPLAINED'})"


@functools.cache
def _standard_names() -> dict[str, str]:
    said = subprocess.run(
        ["openssl", "ciphers", "-stdname", "ALL:@SECLEVEL=0"], check=True, capture_output=True, text=True
    )
    return {words[2]: words[0] for line in said.stdout.splitlines() if len(words := line.split()) > 2}


def cipher(said: Any) -> str | None:
    """Return the registered name of a suite that somebody named their way."""
    if isinstance(said, int):
        return cipher_name(said)
    return _standard_names().get(said, said) or None


def version(said: Any) -> str | None:
    if isinstance(said, int):
        return version_name(said)
    return {"TLSv1.0": "TLSv1"}.get(said, said) or None


def compare(path: Path, truth: Sequence[dict[str, Any]], mangled: Mangled, keys: Path | None) -> list[Difference]:
    """Return all differences."""
    has_keys = keys is not None and keys.exists() and keys.stat().st_size > 0
    tables = build(read(path, keylog=keys if has_keys else None))
    ours = _Ours(tables)
    streams = {(one.client_port, one.server_port): one for one in dissect(path, keys)}
    found = _with_servers(ours, truth, mangled)
    return [*found, *_with_tshark(ours, streams, mangled, truth)]


class _Ours:
    def __init__(self, tables: Tables) -> None:
        self.ends: dict[tuple[int, int], dict[str, Any]] = {}
        self.doubled: list[tuple[int, int]] = []
        by_row = {}
        for row, one in enumerate(tables.connections.to_dict("records")):
            ends = int(one["local_port"]), int(one["remote_port"])
            if ends in self.ends:
                self.doubled.append(ends)
            self.ends[ends] = by_row[row] = {str(name): value for name, value in one.items()}
        self.shakes = {}
        for one in tables.handshakes.to_dict("records"):
            end = by_row[one["connection"]]
            self.shakes[int(end["local_port"]), int(end["remote_port"])] = one
        self.requests: dict[tuple[int, int], list[tuple[Any, Any, Any]]] = {}
        for one in tables.requests.to_dict("records"):
            if one["source"] == "plaintext":
                end = by_row[one["connection"]]
                status = None if one["status"] != one["status"] else int(one["status"])
                ends = int(end["local_port"]), int(end["remote_port"])
                self.requests.setdefault(ends, []).append((one["method"], one["path"], status))


def _masked(path: str) -> str | None:
    return clean_path(path.encode())


def _with_servers(ours: _Ours, truth: Sequence[dict[str, Any]], mangled: Mangled) -> list[Difference]:
    found = []
    asked: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for one in truth:
        if "client_port" in one:
            asked.setdefault((one["client_port"], one["server_port"]), []).append(one)
    for ends, served in asked.items():
        end, shake = ours.ends.get(ends), ours.shakes.get(ends)
        if end is None:
            if mangled.whole:
                found.append(Difference("connection", ends, None, "there", "server"))
            continue
        versed = [each for each in served if each.get("version")]
        if versed:
            found += _handshake(ends, shake, versed[0], mangled)
        for early in (each["early"] for each in served if "early" in each):
            if shake is not None and shake["early_data"] not in (early, None) and mangled.whole:
                found.append(Difference("early_data", ends, shake["early_data"], early, "server"))
        requests = [(each["method"], _masked(each["path"]), each["status"]) for each in served if "method" in each]
        mine = ours.requests.get(ends, [])
        if requests and (mine != requests if mangled.whole else not _within(mine, requests)):
            same = sorted(map(str, mine)) == sorted(map(str, requests))
            why = "HTTP/2 answers in another order than it logs" if same else None
            found.append(Difference("requests", ends, mine, requests, "server", why))
    return found


def _handshake(ends: tuple[int, int], shake: Any, one: dict[str, Any], mangled: Mangled) -> list[Difference]:
    if shake is None:
        return [Difference("handshake", ends, None, "there", "server")] if mangled.whole else []
    reused = one.get("reused")
    told: dict[str, Any] = {
        "version": version(one["version"]),
        "cipher": cipher(one["cipher"]),
        "resumed": reused in (True, "r") if reused is not None else None,
        "sni": one.get("sni") or None,
    }
    if one.get("alpn"):
        told["alpn"] = one["alpn"]
    found = []
    for name, value in told.items():
        mine = shake[name]
        known = mine is not None or (mangled.whole and value is not None)
        if known and mine != value and not (value is None and name != "sni"):
            found.append(Difference(name, ends, mine, value, "server"))
    return found


def _within(mine: Sequence[tuple[Any, ...]], all_of: Sequence[tuple[Any, ...]]) -> bool:
    """Tell whether these are some of those, in order, unknown members aside."""
    rest = iter(all_of)
    return all(any(all(a in (None, b) for a, b in zip(one, other, strict=True)) for other in rest) for one in mine)


def _with_tshark(
    ours: _Ours, streams: dict[tuple[int, int], Stream], mangled: Mangled, truth: Sequence[dict[str, Any]]
) -> list[Difference]:
    found = [Difference("connection", ends, "twice", "once", "tshark") for ends in ours.doubled]
    for ends in ours.ends.keys() | streams.keys():
        stream, end = streams.get(ends), ours.ends.get(ends)
        turned = streams.get(ends[::-1]) if stream is None else None
        if turned is not None and not turned.sure:
            continue  # without the opening both guess who is the client
        if stream is None or end is None:
            if stream is not None and not stream.sure and ends[::-1] in ours.ends:
                continue
            found.append(Difference("connection", ends, end and "there", stream and "there", "tshark"))
            continue
        found += _tls(ends, ours.shakes.get(ends), stream, mangled)
        found += _resent(ends, end, stream, mangled)
        served = [one for one in truth if (one.get("client_port"), one["server_port"]) == ends and "method" in one]
        asked = [(one["method"], _masked(one["path"]), one["status"]) for one in served]
        found += _http(ends, ours.requests.get(ends, []), stream, mangled, asked)
    return found


def _tls(ends: tuple[int, int], shake: Any, stream: Stream, mangled: Mangled) -> list[Difference]:
    if shake is None:
        named = stream.sni or stream.version
        hidden = None if mangled.whole else "its hello is not whole, or its Finished precedes it"
        return [Difference("handshake", ends, None, named, "tshark", hidden)] if named and stream.sure else []
    resumed = None
    if stream.version is not None and shake["outcome"] == "completed":
        ids = stream.session_ids
        echoed = bool(ids.get(True)) and ids.get(True) == ids.get(False)
        resumed = (
            stream.psk if stream.version == "TLSv1.3" else not stream.certificate and (echoed or not ids.get(False))
        )
    told = {
        "sni": stream.sni,
        "version": stream.version,
        "cipher": cipher_name(stream.cipher) if stream.cipher else None,
        "resumed": resumed,
        "hello_retry": stream.retry or None,
        "alpn_offered": stream.alpn_offered or None,
    }
    found = []
    for name, value in told.items():
        mine = shake[name]
        if value is not None and mine != value:
            why = None
            if not mangled.whole and mine is None:
                why = "not certain without the missing bytes"
            elif not mangled.whole and name == "resumed" and stream.version != "TLSv1.3":
                why = "its Certificate may be among the missing packets"
            found.append(Difference(name, ends, mine, value, "tshark", why))
    return found


def _resent(ends: tuple[int, int], end: Any, stream: Stream, mangled: Mangled) -> list[Difference]:
    mine = end["retransmits"]
    if mangled.doubtful:
        return []
    added = mangled.resent.get(ends, 0) + mangled.resent.get(ends[::-1], 0)
    theirs = sum(stream.resent.values())
    found = []
    if mangled.whole and mine != added:
        found.append(Difference("retransmits", ends, mine, added, "truth"))
    if mine != theirs:
        why = None
        if mangled.whole and mine == added:
            kind = "captured twice for one sent twice" if mangled.twice else "sent again for something else"
            why = f"it is as often as was made; tshark takes a packet {kind}"
        found.append(Difference("retransmits", ends, mine, theirs, "tshark", why))
    return found


def _http(
    ends: tuple[int, int],
    mine: list[tuple[Any, Any, Any]],
    stream: Stream,
    mangled: Mangled,
    served: list[tuple[Any, Any, Any]],
) -> list[Difference]:
    theirs = sorted((method, _masked(uri.partition("?")[0]) or "") for method, uri in stream.requests)
    found = []
    asked = sorted((method or "", path or "") for method, path, _ in mine)
    why = None if mangled.whole else "one of both read on where bytes are missing"
    if served and sorted(map(str, mine)) == sorted(map(str, served)):
        why = "the server says what netdiag does"
    if theirs and asked != theirs:
        found.append(Difference("requests", ends, asked, theirs, "tshark", why))
    statuses = sorted(status for _, _, status in mine if status)
    finals = sorted(code for code in stream.statuses if code >= 200)
    if finals and statuses != finals:
        found.append(Difference("statuses", ends, statuses, finals, "tshark", why))
    return found
