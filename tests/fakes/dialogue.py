# SPDX-License-Identifier: Apache-2.0
"""Recordings of requests in plaintext: TLS connections whose records hold what the exchanges say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from netdiag.testing import START_NS, RecordingBuilder

__all__ = ["Said", "Script"]

HELLO = [
    (1, "send", 22, 512, 1), (2, "receive", 22, 122, 2), (2, "receive", 23, 1200, 0), (3, "send", 20, 1, 1),
    (3, "send", 23, 69, 0), (3.5, "receive", 23, 250, 0), (3.5, "receive", 23, 250, 0),
]  # fmt: skip
SETUP = [("send", 1.01, 517), ("receive", 2.01, 1340), ("send", 3.01, 80)]


@dataclass(kw_only=True)
class Said:
    """One exchange: sizes of plaintext and times in ms; its chunks as (arrival ms, bytes, kind, tokens)."""

    at: float
    wait: float = 50
    asked: int = 300
    head: int = 80
    chunks: Sequence[tuple[float, int, int, int]] = ()
    lag: float = 0.2
    members: dict[str, Any] = field(default_factory=dict)


class Script:
    """Writes connections, their records, and what is said on them."""

    def __init__(self) -> None:
        self.builder = RecordingBuilder().process(100)
        self._texts: list[str] = []
        self._connections = self._conversations = 0

    def text(self, text: str | None) -> int:
        """Return the number of a text."""
        if text is None:
            return 0
        self._texts.append(text)
        return len(self._texts)

    def connection(self, said: Sequence[Said], *, sizes: int = 0, **members: Any) -> int:
        """Add a connection with a record for each write and answer; `sizes` makes every record longer by that."""
        self._connections += 1
        cookie, last = self._connections, 0.0
        calls = list(SETUP)
        rows: list[tuple[float, str, int]] = []
        for one in said:
            first = one.at + one.wait
            rows += [(one.at, "send", one.asked), (first, "receive", one.head)]
            rows += [(at, "receive", size) for at, size, _, _ in one.chunks]
            calls += [("send", one.at + 0.01, one.asked + 22), ("receive", first + one.lag, one.head + 22)]
            last = max([first, last, *(at for at, _, _, _ in one.chunks)])
        self.builder.connection(calls, closed=("local", last + 5), **members)
        for at, side, kind, length, byte in HELLO:
            self.builder.wire(cookie, side, at, kind, length, byte)
        for at, side, size in rows:
            self.builder.wire(cookie, side, at, 23, size + 17 + sizes)
        return cookie

    def conversation(self, cookie: int, said: Sequence[Said], *, how: str | None = "inside", **fact: Any) -> int:
        """Add what is said as the dissector records it; `cookie` 0 = not bound."""
        self._conversations += 1
        number, sent, received = self._conversations, fact.pop("sent", 0), 0
        for place, one in enumerate(said, 1):
            first = one.at + one.wait
            body = sum(size for _, size, _, _ in one.chunks)
            end = one.chunks[-1][0] if one.chunks else first
            row = {
                "time": _ns(end + one.lag), "conversation": number, "cookie": cookie, "began": _ns(one.at),
                "sent": _ns(one.at), "first_byte": _ns(first + one.lag), "ended": _ns(end + one.lag),
                "request_first": sent, "request_end": sent + one.asked, "response_first": received,
                "response_end": received + one.head + body, "response_body": received + one.head,
                "request_bytes": one.asked, "response_bytes": one.head + body, "number": place, "tgid": 100, "tid": 100,
                "status": 200, "protocol": 2, "result": 1, "method": self.text("POST"), "host": self.text("api.test"),
                "path": self.text("/v1/x"), "stream_kind": 1 if one.chunks else 0,
            }  # fmt: skip
            offset = received + one.head
            for at, size, kind, tokens in one.chunks:
                self.builder.record(
                    "http_chunk", time=_ns(at + one.lag), conversation=number, exchange=place, offset=offset,
                    token=offset + size if kind == 7 else 0, length=size, events=1, tokens=tokens, kind=kind,
                )  # fmt: skip
                offset += size
            sent, received = sent + one.asked, offset
            for name in ("headers", "request_headers"):
                if name in one.members:
                    row[name] = self.text(json.dumps(one.members.pop(name)))
            self.builder.record("http_request", **(row | one.members))
        self.builder.fact(
            "conversation", conversation=number, pid=100, library="openssl", cookie=cookie, how=how, confidence=1.0,
            **fact,
        )  # fmt: skip
        return number

    def recording(self) -> Any:
        """Return the recording."""
        self.builder.fact("strings", first=1, values=self._texts)
        return self.builder.recording()


def _ns(ms: float) -> int:
    return START_NS + round(ms * 1e6)
