# SPDX-License-Identifier: Apache-2.0
"""QUIC connections and their handshakes, from the facts `quic`. Pure.

An encrypted transport tells when it began, who answered, and what the Initial packets said. Bytes, requests, losses and
who closed are not on the wire for others to see: they stay unknown.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from netdiag.tables.schema import empty, frame

__all__ = ["add"]

_NAN = float("nan")
_MAX_NS = 1 << 63
_GAVE_UP_NS = 3_000_000_000
"""A client that had no answer for so long, with the capture going on, has given up."""
_INSTANTS = (
    "opened_ns", "retry_ns", "answered_ns", "hello_ns", "server_hello_ns", "ready_ns", "established_ns",
    "last_sent_ns", "last_received_ns", "file_ends_ns",
)  # fmt: skip
_COUNTS = ("cookie", "zero_rtt", "repeated", "flight_bytes", *_INSTANTS)


def add(tables: dict[str, pd.DataFrame], facts: Iterable[Mapping[str, Any]], start_ns: int) -> None:
    """Add the QUIC connections behind the others, in order of time; broken facts are left out."""
    sound = sorted(filter(_is_sound, facts), key=lambda fact: (fact["opened_ns"], fact["cookie"]))
    if not sound:
        return
    ends, shakes = (tables.get(name, empty(name)) for name in ("connections", "handshakes"))
    rows = [_Row(fact, start_ns) for fact in sound]
    shaken = [row for row in rows if row.shook]
    for number, row in enumerate(rows):
        row.number = len(ends) + number
    for number, row in enumerate(shaken):
        row.handshake = f"h{len(shakes) + number + 1}"
    tables["connections"] = _below(ends, "connections", [row.connection() for row in rows])
    tables["handshakes"] = _below(shakes, "handshakes", [row.shake() for row in shaken])


def _below(table: pd.DataFrame, name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    if not rows:
        return table
    more = frame(name, len(rows), {key: [row[key] for row in rows] for key in rows[0]})
    return pd.concat([table, more], ignore_index=True) if len(table) else more


def _is_sound(fact: Mapping[str, Any]) -> bool:
    """Tell whether a fact has what is read without a check below; recordings are foreign."""
    numbers = all(type(fact.get(name)) is int and 0 <= fact[name] < _MAX_NS for name in _COUNTS)
    texts = all(fact.get(name) is None or isinstance(fact[name], str) for name in ("sni", "tls", "cipher", "group"))
    alpn = fact.get("alpn")
    lists = alpn is None or (isinstance(alpn, list) and all(isinstance(name, str) for name in alpn))
    ends = all(isinstance(fact.get(name), dict) and _address(fact[name]) for name in ("client", "server"))
    closed = fact.get("closed")
    return numbers and texts and lists and ends and (closed is None or isinstance(closed, dict))


def _address(end: Mapping[str, Any]) -> tuple[str, int, str] | None:
    """Return address, port and family of an end; None where it is none."""
    port, text = end.get("port"), end.get("ip")
    try:
        raw = bytes.fromhex(text) if isinstance(text, str) else b""
        address = ipaddress.IPv6Address(raw)
    except ValueError:
        return None
    if type(port) is not int or not 0 <= port < 1 << 16:
        return None
    mapped = address.ipv4_mapped
    return (str(mapped), port, "ipv4") if mapped else (str(address), port, "ipv6")


class _Row:
    """One connection."""

    def __init__(self, fact: Mapping[str, Any], start_ns: int) -> None:
        self._fact = fact
        self._at = {name: float(fact[name] - start_ns) if fact[name] else _NAN for name in _INSTANTS}
        self.number = 0
        self.handshake: str | None = None
        self.shook = bool(fact["hello_ns"])
        self._established = bool(fact["established_ns"])
        closed = fact.get("closed") or {}
        self._failed = bool(closed) and not self._established

    def connection(self) -> dict[str, Any]:
        at, fact = self._at, self._fact
        local, remote = (_address(fact[name]) or ("", 0, "") for name in ("client", "server"))
        return {
            "id": f"c{self.number + 1}",
            "cookie": fact["cookie"],
            "role": "client",
            "family": local[2],
            "protocol": "quic",
            "local_ip": local[0],
            "local_port": local[1],
            "remote_ip": remote[0],
            "remote_port": remote[1],
            "remote_name": fact.get("sni"),
            "opened_ns": at["opened_ns"],
            "established_ns": at["established_ns"],
            "preexisting": False,
            "outcome": self._outcome(),
            "rtt_ms": self._round_trip(),
            "first_sent_ns": at["opened_ns"],
            "last_sent_ns": at["last_sent_ns"],
            "first_received_ns": at["answered_ns"],
            "last_received_ns": at["last_received_ns"],
            "encrypted": True,
            "handshake": self.handshake,
        }

    def _outcome(self) -> str:
        """Say what became of the handshake; what followed is not on the wire for others to read."""
        fact = self._fact
        if self._established:
            return "established"
        if self._failed:
            return "refused"
        if fact["answered_ns"] or fact["retry_ns"]:
            return "pending"
        if fact.get("refused"):
            return "refused"
        waited = fact["file_ends_ns"] - max(fact["last_sent_ns"], fact["opened_ns"])
        return "timeout" if waited > _GAVE_UP_NS else "pending"

    def _round_trip(self) -> float:
        """Return the time to the first answer: a Retry is made without thinking, else the server's work is in it."""
        at = self._at
        first = at["retry_ns"] if self._fact["retry_ns"] else at["answered_ns"]
        return (first - at["opened_ns"]) / 1e6

    def shake(self) -> dict[str, Any]:
        at, fact = self._at, self._fact
        completed = self._established
        took = (at["established_ns"] - at["opened_ns"]) / 1e6
        closed = fact.get("closed") or {}
        alert = closed.get("alert")
        return {
            "id": self.handshake,
            "connection": self.number,
            "started_ns": at["opened_ns"],
            "duration_ms": took if completed else _NAN,
            "outcome": "completed" if completed else "failed" if self._failed else "unfinished",
            "alert": alert if isinstance(alert, str) else None,
            "version": fact.get("tls"),
            "cipher": fact.get("cipher"),
            "group": fact.get("group"),
            "sni": fact.get("sni"),
            "alpn_offered": fact.get("alpn"),
            "offered": self._offered(),
            "resumed": (fact.get("psk") is True) if completed and fact.get("tls") else None,
            "early_data": self._early_data(),
            "hello_retry": fact["hello_retry"] if isinstance(fact.get("hello_retry"), bool) else None,
            "client_hello_bytes": float(fact["hello_bytes"]) if type(fact.get("hello_bytes")) is int else _NAN,
            "server_flight_bytes": float(fact["flight_bytes"]) if completed else _NAN,
            "source": "wire",
        }

    def _offered(self) -> str | None:
        if self._fact.get("psk_offered"):
            return "psk"
        return "none" if self._fact.get("whole") is True else None

    def _early_data(self) -> str | None:
        fact = self._fact
        if not fact.get("early_offered") and not fact["zero_rtt"]:
            return "none" if fact.get("whole") is True else None
        if fact.get("tls") is not None and (fact.get("psk") is False or fact.get("hello_retry") is True):
            return "refused"
        return "unknown" if self._established else "offered"
