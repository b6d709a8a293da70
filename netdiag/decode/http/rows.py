# SPDX-License-Identifier: Apache-2.0
"""Exchanges and chunks as records: members of the structs in `bpf/include/netdiag/http.h`, texts by number."""

from __future__ import annotations

import json
from collections import OrderedDict

from netdiag.decode.http.exchange import Chunk, Exchange

__all__ = ["Strings", "chunk_row", "request_row"]

_REMEMBERED = 4096
_MOST_TEXT = 4096


class Strings:
    """Numbers texts from 1. A text may get a second number when it was not used for long."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._next = 1
        self._new: list[str] = []

    def number(self, text: str | None) -> int:
        """Return the number of a text; 0 for None, and for one that is too long."""
        if text is None or len(text) > _MOST_TEXT:
            return 0
        known = self._numbers.get(text)
        if known is not None:
            self._numbers.move_to_end(text)
            return known
        number = self._numbers[text] = self._next
        self._next += 1
        self._new.append(text)
        if len(self._numbers) > _REMEMBERED:
            self._numbers.popitem(last=False)
        return number

    def of_headers(self, fields: dict[str, str]) -> int:
        """Return the number of kept header fields, as a JSON object; 0 where there are none."""
        return self.number(json.dumps(fields, separators=(",", ":"))) if fields else 0

    def take(self) -> tuple[int, list[str]]:
        """Return the texts that are new since the last time, and the number of the first: a fact `strings`."""
        new, self._new = self._new, []
        return self._next - len(new), new


def request_row(
    exchange: Exchange,
    strings: Strings,
    *,
    conversation: int,
    cookie: int,
    at_ns: int,
    server: bool,
    pid: int,
    tid: int,
) -> dict[str, int]:
    """Return a record of `http_request` by member; `server`: the traced program is the server."""
    usage = exchange.usage
    return {
        "time": at_ns,
        "conversation": conversation,
        "cookie": cookie,
        "began": exchange.began_ns,
        "sent": exchange.sent_ns,
        "first_byte": exchange.first_byte_ns,
        "ended": exchange.ended_ns,
        "request_first": exchange.request_first,
        "request_end": exchange.request_end,
        "response_first": exchange.response_first,
        "response_end": exchange.response_end,
        "response_body": exchange.response_body,
        "request_bytes": exchange.request_bytes,
        "response_bytes": exchange.response_bytes,
        "blocked": exchange.blocked_ns,
        "number": exchange.number,
        "stream": exchange.stream,
        "method": strings.number(exchange.method),
        "host": strings.number(exchange.host),
        "path": strings.number(exchange.path),
        "model": strings.number(exchange.model),
        "request_headers": strings.of_headers(exchange.request_headers),
        "headers": strings.of_headers(exchange.headers),
        "input_tokens": _said(usage.input),
        "cached_tokens": _said(usage.cached),
        "output_tokens": _said(usage.output),
        "reasoning_tokens": _said(usage.reasoning),
        "tgid": pid,
        "tid": tid,
        "concurrent": exchange.concurrent,
        "flags": int(exchange.flags),
        "status": exchange.status,
        "protocol": int(exchange.protocol),
        "stream_kind": int(exchange.stream_kind),
        "format": int(exchange.format),
        "result": int(exchange.ended),
        "server": int(server),
        "reserved": 0,
    }


def chunk_row(chunk: Chunk, *, conversation: int) -> dict[str, int]:
    """Return a record of `http_chunk` by member."""
    return {
        "time": chunk.at_ns,
        "conversation": conversation,
        "offset": chunk.offset,
        "token": chunk.token_offset,
        "exchange": chunk.exchange,
        "length": chunk.length,
        "events": chunk.events,
        "tokens": chunk.tokens,
        "kind": int(chunk.kind),
    }


def _said(tokens: int | None) -> int:
    """Return a number of tokens plus one, for 0 stands for not known."""
    return 0 if tokens is None else tokens + 1
