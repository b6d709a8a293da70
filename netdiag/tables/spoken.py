# SPDX-License-Identifier: Apache-2.0
"""What was said in plaintext as it was recorded: exchanges and chunks by conversation, texts in place of numbers. Pure.

Instants are those of the program's calls, or of the packets where there were no calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netdiag.tables.columns import Columns, Ints, Objects
from netdiag.tables.schema import objects

__all__ = ["Conversation", "Spoken", "spoken"]

_INSTANTS = ("time", "began", "sent", "first_byte", "ended")
_NUMBERS = (
    "conversation", "cookie", "request_first", "request_end", "response_first", "response_end", "response_body",
    "request_bytes", "response_bytes", "blocked", "number", "stream", "tgid", "tid", "concurrent", "flags", "status",
    "protocol", "stream_kind", "format", "result", "server",
)  # fmt: skip
_TEXTS = ("method", "host", "path", "model")
_TABLES = ("headers", "request_headers")
_TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
_MOST_FIELDS = 64
_BY_PACKET = frozenset({"packet", "clear", "decrypted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a fact says about one; where there are several facts, the last."""

    cookie: int
    """0 = not bound."""
    how: str | None
    """How the socket is known; None without."""
    confidence: float
    whole: bool
    """It was seen from its first byte."""
    missed: bool = False
    """What came shows that calls were not seen: offsets count only those that were."""
    mixed: bool
    """Its bytes went over more than one socket, which tells against any binding."""

    @property
    def by_packet(self) -> bool:
        """Its instants are those of packets at the socket: nothing is known of when the program read."""
        return self.how in _BY_PACKET


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """All exchanges and chunks; instants in ns since the start, NaN = did not happen."""

    exchanges: pd.DataFrame
    """Members of `http_request`, in order of time; texts and header fields as such."""
    chunks: pd.DataFrame
    """Members of `http_chunk`, by conversation, exchange and time."""
    conversations: Mapping[int, Conversation]


def spoken(requests: Columns | None, chunks: Columns | None, facts: Iterable[Mapping[str, Any]]) -> Spoken | None:
    """Return what was said, None where nothing was recorded of it."""
    if requests is None:
        return None
    facts = list(facts)
    texts = _texts(facts)
    columns: dict[str, Any] = {name: requests.instant(name) for name in _INSTANTS}
    columns |= {name: requests.integers(name) for name in _NUMBERS}
    columns |= {name: _looked_up(requests.integers(name), texts) for name in _TEXTS}
    columns |= {
        name: objects([_fields(each) for each in _looked_up(requests.integers(name), texts)]) for name in _TABLES
    }
    columns |= {name: requests.known(name) - 1.0 for name in _TOKENS}
    exchanges = pd.DataFrame({name: _series(values) for name, values in columns.items()})
    exchanges = exchanges.sort_values(["conversation", "number", "time"], kind="stable")
    exchanges = exchanges.drop_duplicates(["conversation", "number"], keep="last")
    exchanges = exchanges.sort_values(["began", "conversation"], kind="stable").reset_index(drop=True)
    return Spoken(exchanges=exchanges, chunks=_chunks(chunks), conversations=_conversations(facts))


def _series(values: Any) -> Any:
    return pd.Series(values, dtype=object) if values.dtype == object else values


def _chunks(events: Columns | None) -> pd.DataFrame:
    names = ("conversation", "exchange", "offset", "token", "length", "events", "tokens", "kind")
    if events is None:
        return pd.DataFrame({"time": np.zeros(0), **{name: np.zeros(0, np.int64) for name in names}})
    table = pd.DataFrame({"time": events.instant("time"), **{name: events.integers(name) for name in names}})
    order = np.lexsort((table["offset"], table["time"], table["exchange"], table["conversation"]))
    return table.iloc[order].reset_index(drop=True)


def _texts(facts: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """Return text by number."""
    found: dict[int, str] = {}
    for fact in facts:
        first, values = fact.get("first"), fact.get("values")
        if fact.get("kind") == "strings" and type(first) is int and isinstance(values, list):
            found |= {first + at: value for at, value in enumerate(values) if isinstance(value, str)}
    return found


def _looked_up(numbers: Ints, texts: Mapping[int, str]) -> Objects:
    return objects([texts.get(number) for number in numbers.tolist()])


def _fields(text: str | None) -> dict[str, str]:
    """Return header fields; none of what is no such object."""
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: each for name, each in list(value.items())[:_MOST_FIELDS] if isinstance(each, str)}


def _conversations(facts: Iterable[Mapping[str, Any]]) -> dict[int, Conversation]:
    found = {}
    for fact in facts:
        number, cookie, confidence = (fact.get(name) for name in ("conversation", "cookie", "confidence"))
        if fact.get("kind") != "conversation" or type(number) is not int:
            continue
        how = fact.get("how")
        found[number] = Conversation(
            cookie=cookie if type(cookie) is int and 0 <= cookie < 1 << 63 else 0,
            how=how if isinstance(how, str) else None,
            confidence=float(confidence) if isinstance(confidence, int | float) else 0.0,
            whole=fact.get("whole") is not False,
            missed=fact.get("missed") is True,
            mixed=fact.get("mixed") is True,
        )
    return found
