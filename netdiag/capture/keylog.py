# SPDX-License-Identifier: Apache-2.0
"""Secrets of TLS sessions, from a key log in the format of NSS: `SSLKEYLOGFILE`, or the blocks of a pcapng file.

A line is `LABEL CLIENT_RANDOM SECRET`, all in hex; lines of other kinds are counted and skipped. Secrets stay in
memory: no text, no error and no `repr` shows one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from netdiag.errors import InputUnreadable

__all__ = ["KeyLog", "read"]

_LABELS = frozenset(
    {
        b"CLIENT_RANDOM",
        b"CLIENT_EARLY_TRAFFIC_SECRET",
        b"CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        b"SERVER_HANDSHAKE_TRAFFIC_SECRET",
        b"CLIENT_TRAFFIC_SECRET_0",
        b"SERVER_TRAFFIC_SECRET_0",
    }
)
_OTHERS = frozenset({b"EXPORTER_SECRET", b"EARLY_EXPORTER_SECRET", b"EARLY_EXPORTER_MASTER_SECRET", b"ECH_SECRET"})
"""Known, and of no use for reading records."""
_RANDOM_BYTES = 32
_SECRET_BYTES = (32, 48, 64)
_MASTER_BYTES = 48
_MAX_LINE = 512
_MAX_BYTES = 1 << 28
_MAX_SESSIONS = 1 << 20
_MAX_MISSED = 1 << 16
_NOTHING: Mapping[str, bytes] = {}


class KeyLog:
    """The secrets of sessions by the random number of their ClientHello."""

    def __init__(self) -> None:
        self._found: dict[bytes, dict[str, bytes]] = {}
        self.lines = 0
        """That hold a secret of use."""
        self.skipped = 0
        """That hold none: broken, of an unknown kind, or beyond what is kept."""
        self.late = False
        """A secret came after it was looked for: records that it opens had passed by then."""
        self.given = False
        """The user gave it, beside what the capture itself may hold."""
        self._used: set[bytes] = set()
        self._missed: set[tuple[bytes, str]] = set()
        self._passed_by = False

    def __repr__(self) -> str:
        return f"KeyLog({len(self._found)} sessions)"

    def __len__(self) -> int:
        """Return how many sessions it has secrets of."""
        return len(self._found)

    def __bool__(self) -> bool:
        """Tell whether there is any secret."""
        return bool(self._found)

    def add(self, text: bytes) -> None:
        """Take the lines of a key log; the first word on a session and label holds."""
        for line in text.splitlines():
            if line.strip() and not line.lstrip().startswith(b"#"):
                self._take(line)

    def _take(self, line: bytes) -> None:
        words = line.split() if len(line) <= _MAX_LINE else []
        if words and words[0] in _OTHERS:
            return
        random, secret = (_unhex(word) for word in words[1:]) if len(words) == 3 else (b"", b"")
        fits = len(secret) == _MASTER_BYTES if words[:1] == [b"CLIENT_RANDOM"] else len(secret) in _SECRET_BYTES
        room = random in self._found or len(self._found) < _MAX_SESSIONS
        if not fits or len(random) != _RANDOM_BYTES or words[0] not in _LABELS or not room:
            self.skipped += 1
            return
        label = words[0].decode()
        self.late |= self._passed_by or (random, label) in self._missed
        self._found.setdefault(random, {}).setdefault(label, secret)
        self.lines += 1

    def of(self, client_random: bytes) -> Mapping[str, bytes]:
        """Return the secrets of a session by label; empty where there are none."""
        return self._found.get(client_random, _NOTHING)

    def secret(self, client_random: bytes, label: str) -> bytes:
        """Return a secret that is needed now, b"" where it is not known; if it comes later, it is late."""
        found = self.of(client_random).get(label, b"")
        if found:
            self._used.add(client_random)
        if not found and len(self._missed) < _MAX_MISSED:
            self._missed.add((client_random, label))
        return found

    @property
    def useless(self) -> str | None:
        """Why a key log that the user gave opened nothing; None where some session of it was met, or none was given."""
        if not self.given or self._used:
            return None
        if not self:
            return "the key log holds no secret"
        count = f"{len(self)} session{'' if len(self) == 1 else 's'}"
        return f"the key log has secrets of {count}, of which none began in what was read of the capture"

    def pass_by(self) -> None:
        """Note that a session is not read, for there is no secret at all: whatever comes later is late."""
        self._passed_by = True


def read(path: str | os.PathLike[str]) -> KeyLog:
    """Read a key log; InputUnreadable where it cannot be read, or holds lines of another kind alone."""
    log, where = KeyLog(), os.fspath(path)
    log.given = True
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputUnreadable(f"{where}: {error.strerror}") from error
    if len(text) > _MAX_BYTES:
        raise InputUnreadable(f"{where}: a key log of more than {_MAX_BYTES >> 20} MiB")
    log.add(text)
    if not log and log.skipped:
        raise InputUnreadable(
            f"{where}: no line of it is one of a key log (skipped {log.skipped})",
            hint="it is what SSLKEYLOGFILE writes: CLIENT_RANDOM or …_TRAFFIC_SECRET lines",
        )
    return log


def _unhex(word: bytes) -> bytes:
    try:
        return bytes.fromhex(word.decode("ascii"))
    except ValueError:
        return b""
