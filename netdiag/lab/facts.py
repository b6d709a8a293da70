# SPDX-License-Identifier: Apache-2.0
"""The server's own word on what happened: one JSON line per fact, written as it happens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

__all__ = ["FactLog", "TrueClose", "TrueConnection", "Truth"]


class FactLog:
    """Appends facts to a file; any thread may write. Times are CLOCK_MONOTONIC nanoseconds, as the kernel programs'."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def write(self, event: str, **members: Any) -> None:
        """Append one fact, stamped now."""
        line = json.dumps({"event": event, "at": time.monotonic_ns(), **members})
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueClose:
    """Who ended a connection, as the server knows it."""

    by: str
    """`server` or `client`."""
    why: str
    at: int
    """CLOCK_MONOTONIC, ns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueConnection:
    """One accepted connection."""

    number: int
    peer_port: int
    accepted: int
    """CLOCK_MONOTONIC, ns."""
    requests: tuple[Mapping[str, Any], ...]
    close: TrueClose | None
    """None where it was still open at the end."""
    handshake: Mapping[str, Any] | None = None
    """`version` and `resumed` of the TLS handshake that the server completed; None where it completed none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """All facts of one run."""

    connections: tuple[TrueConnection, ...]
    handshakes: int
    requests: int

    @classmethod
    def read(cls, path: Path) -> Truth:
        """Read a fact file; an incomplete last line, as a killed server leaves it, is skipped."""
        facts = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        requests = [fact for fact in facts if fact["event"] == "request"]
        closes = {fact["conn"]: fact for fact in reversed(facts) if fact["event"] == "close"}
        handshakes = {fact["conn"]: fact for fact in facts if fact["event"] == "handshake"}
        connections = tuple(
            TrueConnection(
                number=fact["conn"],
                peer_port=fact["peer_port"],
                accepted=fact["at"],
                requests=tuple(entry for entry in requests if entry["conn"] == fact["conn"]),
                close=_close(closes.get(fact["conn"])),
                handshake=handshakes.get(fact["conn"]),
            )
            for fact in facts
            if fact["event"] == "accept"
        )
        return cls(connections=connections, handshakes=len(handshakes), requests=len(requests))


def _close(fact: Mapping[str, Any] | None) -> TrueClose | None:
    return None if fact is None else TrueClose(by=fact["by"], why=fact["why"], at=fact["at"])
