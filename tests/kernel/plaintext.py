# SPDX-License-Identifier: Apache-2.0
"""A trace with a reader for plaintext: what the recorder hands over is put together again."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from netdiag.recording.pieces import Frames, PlainRecord, records
from tests.kernel.harness import Trace

__all__ = ["RECEIVE", "SEND", "PlainTrace"]

SEND, RECEIVE = 1, 2
END = 2
"""Of `enum nd_plain_flags`."""


class PlainTrace(Trace):
    """As a trace; stopping it also says the word that the recorder waits for."""

    def __init__(
        self,
        path: Path,
        *,
        kind: int = socket.SOCK_STREAM,
        slow_s: float = 0.0,
        program: str | None = None,
        **settings: Any,
    ) -> None:
        """`program`: what the one process of `pids` will run."""
        here, there = socket.socketpair(socket.AF_UNIX, kind)
        self._reader = here
        self._slow_s = slow_s
        self.frames = Frames()
        self.pieces: list[PlainRecord] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        with contextlib.ExitStack() as given:
            given.enter_context(there)
            extra = {"plain": there.fileno()}
            if program:
                extra["program"] = given.enter_context(Path(program).open("rb")).fileno()
                settings["command"] = {"pid": settings["pids"][0], "argv": [program]}
            super().__init__(path, extra=extra, **settings)
        self._thread.start()

    def _read(self) -> None:
        while data := self._reader.recv(1 << 18):
            for layout, body in self.frames.feed(data):
                self.pieces += records(layout, body)
            time.sleep(self._slow_s)
        self._reader.close()
        with contextlib.suppress(OSError):  # it did not wait any longer
            self.link.send({"do": "finish"})

    def of(self, pid: int) -> list[PlainRecord]:
        """Return the pieces of a process in the order in which they came."""
        return [piece for piece in self.pieces if piece.tgid == pid]

    def conversations(self, pid: int) -> dict[tuple[int, int, int], dict[int, list[PlainRecord]]]:
        """Return (handle, generation, cookie where it has no handle) → direction → pieces in order of their offset."""
        found: dict[tuple[int, int, int], dict[int, list[PlainRecord]]] = defaultdict(lambda: defaultdict(list))
        for piece in self.pieces:
            if piece.tgid == pid and piece.length:
                key = (piece.handle, piece.generation, 0 if piece.handle else piece.cookie)
                found[key][piece.direction].append(piece)
        for directions in found.values():
            for pieces in directions.values():
                pieces.sort(key=lambda piece: piece.offset)
        return {key: dict(directions) for key, directions in found.items()}


def joined(pieces: list[PlainRecord]) -> bytes:
    """Return the bytes of a direction, those that were not copied as zeros; a gap in the offsets is a fault."""
    at = 0
    whole = bytearray()
    for piece in pieces:
        assert piece.offset == at, f"{piece.offset} does not follow {at}"
        missing = piece.length - len(piece.data) - len(piece.tail)
        assert missing >= 0
        whole += piece.data + bytes(missing) + piece.tail
        at += piece.length
    return bytes(whole)
