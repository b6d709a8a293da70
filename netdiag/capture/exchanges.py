# SPDX-License-Identifier: Apache-2.0
"""Exchanges and chunks as records of the streams `http_request` and `http_chunk`, texts by number."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from netdiag.capture.layouts import layout, rows
from netdiag.capture.sink import Harvest
from netdiag.decode.http.conversation import Conversation, Told
from netdiag.decode.http.exchange import Chunk, Exchange
from netdiag.recording.reader import Records

__all__ = ["Exchanges"]

_REQUEST, _CHUNK = "http_request", "http_chunk"
_RUN = 1024
_MOST = {_REQUEST: 200_000, _CHUNK: 500_000}
_MOST_TEXTS = 100_000
_TEXTS_IN_FACT = 256
_COUNT_16 = 0xFFFF
_SAME = (
    "number", "began_ns", "sent_ns", "first_byte_ns", "ended_ns", "request_first", "request_end", "response_first",
    "response_end", "response_body", "request_bytes", "response_bytes", "blocked_ns", "stream", "concurrent", "status",
)  # fmt: skip
"""Members of an exchange that are members of the record, `_ns` left out of the name."""


class _Filled:
    """Records of one stream in the making."""

    def __init__(self, stream: str) -> None:
        self._stream, self._runs, self._used = stream, list[Records](), _RUN
        self.count = self.lost = 0

    def add(self, values: Mapping[str, int]) -> None:
        if self.count >= _MOST[self._stream]:
            self.lost += 1
            return
        if self._used == _RUN:
            self._runs.append(rows(self._stream, _RUN))
            self._used = 0
        record = self._runs[-1][self._used]
        for name, value in values.items():
            record[name] = value
        self._used += 1
        self.count += 1

    def all(self) -> Records:
        """Return one array of them all."""
        return np.concatenate([*self._runs[:-1], self._runs[-1][: self._used]])


class Exchanges:
    """Collects what conversations tell."""

    def __init__(self) -> None:
        self._streams = {_REQUEST: _Filled(_REQUEST), _CHUNK: _Filled(_CHUNK)}
        self._numbers: dict[str, int] = {}
        self._conversations: list[tuple[int, str, bool]] = []
        self._facts: list[dict[str, Any]] = []
        self._not_followed: Counter[str] = Counter()

    def conversation(self, cookie: int, *, how: str = "clear", whole: bool = True) -> int:
        """Return the number of a new conversation on a connection; `whole`: it was seen from its first byte."""
        self._conversations.append((cookie, how, whole))
        return len(self._conversations)

    def take(self, conversation: int, told: Iterable[Told]) -> None:
        """Take what a conversation told."""
        for one in told:
            if isinstance(one, Exchange):
                self._streams[_REQUEST].add(self._request(conversation, one))
            else:
                self._streams[_CHUNK].add(_chunk(conversation, one))

    def over(self, conversation: int, said: Conversation) -> None:
        """Keep what a conversation says about itself at its end, where it was one."""
        if said.protocol is None:
            return
        cookie, how, whole = self._conversations[conversation - 1]
        about = {"kind": "conversation", "conversation": conversation, "pid": None, "library": None, "cookie": cookie}
        about |= {
            "how": how,
            "confidence": 1.0,
            "whole": whole,
            "protocol": said.protocol,
        }
        if (why := said.not_followed) is not None:
            self._not_followed[why] += 1
        if (link := said.link) is not None:
            about["link"] = asdict(link)
        self._facts.append(about)

    def inside(self, fact: dict[str, Any]) -> None:
        """Keep a fact about an encrypted handshake."""
        self._facts.append(fact)

    def _request(self, conversation: int, one: Exchange) -> dict[str, int]:
        usage = one.usage
        return {
            **{name.removesuffix("_ns"): getattr(one, name) for name in _SAME},
            "time": one.ended_ns or one.first_byte_ns or one.sent_ns or one.began_ns,
            "conversation": conversation,
            "cookie": self._conversations[conversation - 1][0],
            "method": self._text(one.method),
            "host": self._text(one.host),
            "path": self._text(one.path),
            "model": self._text(one.model),
            "request_headers": self._json(one.request_headers),
            "headers": self._json(one.headers),
            "input_tokens": _counted(usage.input),
            "cached_tokens": _counted(usage.cached),
            "output_tokens": _counted(usage.output),
            "reasoning_tokens": _counted(usage.reasoning),
            "flags": int(one.flags),
            "protocol": int(one.protocol),
            "stream_kind": int(one.stream_kind),
            "format": int(one.format),
            "result": int(one.ended),
        }

    def _json(self, headers: Mapping[str, str]) -> int:
        return self._text(json.dumps(headers, sort_keys=True)) if headers else 0

    def _text(self, text: str | None) -> int:
        """Return the number of a text, 0 for none; beyond a bound, none."""
        if text is None or (text not in self._numbers and len(self._numbers) >= _MOST_TEXTS):
            return 0
        return self._numbers.setdefault(text, len(self._numbers) + 1)

    def harvest(self) -> Harvest:
        """Return all of it."""
        filled = {name: stream for name, stream in self._streams.items() if stream.count}
        texts = list(self._numbers)
        facts: list[dict[str, Any]] = [
            {"kind": "strings", "first": at + 1, "values": texts[at : at + _TEXTS_IN_FACT]}
            for at in range(0, len(texts), _TEXTS_IN_FACT)
        ]
        facts += self._facts
        if self._not_followed:
            facts.append({"kind": "plaintext", "not_followed": dict(self._not_followed)})
        facts += [
            {"kind": "loss", "probe": name, "seen": stream.count, "lost": stream.lost}
            for name, stream in filled.items()
            if stream.lost
        ]
        return Harvest(
            records={name: stream.all() for name, stream in filled.items()},
            layouts={name: layout(name) for name in filled},
            facts=facts,
        )


def _counted(number: int | None) -> int:
    """Return one more than what was said, 0 for nothing."""
    return 0 if number is None else min(number + 1, 0xFFFFFFFF)


def _chunk(conversation: int, one: Chunk) -> dict[str, int]:
    return {
        "time": one.at_ns,
        "conversation": conversation,
        "offset": one.offset,
        "token": one.token_offset,
        "exchange": one.exchange,
        "length": one.length,
        "events": min(one.events, _COUNT_16),
        "tokens": min(one.tokens, _COUNT_16),
        "kind": int(one.kind),
    }
