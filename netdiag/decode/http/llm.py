# SPDX-License-Identifier: Apache-2.0
"""What APIs of language models say in bodies: which kind of event this is, the model, the tokens used.

Where each API says it is data: `probes/body-facts.toml`. Nothing of a text is kept but the model's name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from netdiag.assets import data_dir
from netdiag.decode.http.events import Event
from netdiag.decode.http.exchange import ChunkKind, Format, Usage
from netdiag.decode.http.masking import clean_model
from netdiag.decode.http.scan import leaves, top_of_tail, whole_number

__all__ = ["AnswerFacts", "RequestFacts", "kind_of", "read_answer", "read_request"]

_NOTHING = (b"null", b"false", b"0")


@dataclass(slots=True, kw_only=True)
class RequestFacts:
    """What a request's body says."""

    model: str | None = None
    stream: bool | None = None
    format: Format = Format.UNKNOWN


@dataclass(slots=True, kw_only=True)
class AnswerFacts:
    """What an answer's body, or its events so far, said."""

    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    finished: bool = False
    """An event said that this is the end."""
    spoke: bool = False
    """Some event was one of a language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """The paths of body-facts.toml, by what they mean."""

    request_model: frozenset[bytes]
    request_stream: frozenset[bytes]
    request_format: frozenset[bytes]
    request_schema: frozenset[bytes]
    answer: Mapping[bytes, str]
    types: Mapping[bytes, ChunkKind]
    usage: Mapping[bytes, str]
    apart: frozenset[bytes]


@cache
def _places() -> _Places:
    text = (data_dir("probes") / "body-facts.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    asked, told, used = document["request"], document["answer"], document["usage"]
    meanings = ("model", "content", "reasoning", "thought", "role", "error", "done")
    return _Places(
        request_model=_paths(asked["model"]),
        request_stream=_paths(asked["stream"]),
        request_format=_paths(asked["format"]),
        request_schema=_paths(asked["schema"]),
        answer={path: meaning for meaning in meanings for path in _paths(told[meaning])},
        types={name.encode(): ChunkKind[entry["kind"].upper()] for entry in told["type"] for name in entry["names"]},
        usage={path: name for name in ("input", "cached", "output", "reasoning") for path in _paths(used[name])},
        apart=_paths(used["apart"]),
    )


def _paths(values: Any) -> frozenset[bytes]:
    return frozenset(value.encode() for value in values)


def read_request(head: bytes, tail: bytes = b"") -> RequestFacts:
    """Return what the first bytes of a request's body say, and its last ones where they are not among the first."""
    facts, places = RequestFacts(), _places()
    if head.lstrip()[:1] != b"{":
        return facts
    for data in (head, top_of_tail(tail)):
        for path, raw, is_text in leaves(data):
            if path in places.request_model and is_text:
                facts.model = facts.model or clean_model(raw)
            elif path in places.request_stream and raw in (b"true", b"false") and not is_text:
                facts.stream = raw == b"true"
            elif path in places.request_format and is_text:
                facts.format = max(facts.format, _format(raw))
            elif path in places.request_schema and raw == b"{":
                facts.format = Format.JSON_SCHEMA
    return facts


def _format(raw: bytes) -> Format:
    if raw in (b"text", b"text/plain", b""):
        return Format.TEXT
    return Format.JSON_SCHEMA if b"schema" in raw else Format.JSON_OBJECT


def read_answer(head: bytes, tail: bytes, facts: AnswerFacts) -> None:
    """Add what the first and the last bytes of an answer in one JSON object say."""
    places, apart = _places(), 0
    for data in (head, top_of_tail(tail)):
        for path, raw, is_text in leaves(data):
            if path in places.usage or path in places.apart:
                apart += _use(facts.usage, places, path, raw)
            elif is_text and places.answer.get(path) == "model":
                facts.model = facts.model or clean_model(raw)
    _add_apart(facts.usage, apart)


def kind_of(event: Event, facts: AnswerFacts) -> ChunkKind:
    """Return what an event of a stream says, and add what it tells to `facts`."""
    if event.comment:
        return ChunkKind.HEARTBEAT
    data = event.data
    if data.strip() in (b"", b"[DONE]"):
        done = bool(data.strip())
        facts.finished = facts.finished or done
        named = _places().types.get(event.name)
        return ChunkKind.DONE if done else (named or ChunkKind.HEARTBEAT)
    return _kind(event.name, data, facts)


def _kind(name: bytes, data: bytes, facts: AnswerFacts) -> ChunkKind:
    places = _places()
    best = places.types.get(name, ChunkKind.OTHER)
    told: set[str] = set()
    apart = 0
    for path, raw, is_text in leaves(data):
        meaning = places.answer.get(path)
        if path == b"type" and is_text and raw in places.types:
            best = places.types[raw]
        elif path == b"delta" and is_text and not raw and best in (ChunkKind.CONTENT, ChunkKind.REASONING):
            told.add("empty")
        elif path in places.usage or path in places.apart:
            told.add("usage")
            apart += _use(facts.usage, places, path, raw)
        elif meaning == "model":
            if is_text and not facts.model:
                facts.model = clean_model(raw)
        elif meaning in ("content", "reasoning", "role"):
            if is_text and raw:
                told.add(meaning)
        elif meaning is not None and raw not in _NOTHING and not (is_text and not raw):
            told.add(meaning)
    _add_apart(facts.usage, apart)
    return _weigh(best, told, facts)


def _weigh(best: ChunkKind, told: set[str], facts: AnswerFacts) -> ChunkKind:  # noqa: PLR0911 - one line a rule
    """Return the kind of an event from its name and from what it holds."""
    if best is ChunkKind.DONE or "done" in told:
        facts.finished = True
    if best is ChunkKind.ERROR or "error" in told:
        return ChunkKind.ERROR
    if best in (ChunkKind.CONTENT, ChunkKind.REASONING):
        facts.spoke = True
        return ChunkKind.ROLE if "empty" in told else best
    if "content" in told and best is not ChunkKind.DONE:
        facts.spoke = True
        return ChunkKind.REASONING if "thought" in told else ChunkKind.CONTENT
    if "reasoning" in told:
        facts.spoke = True
        return ChunkKind.REASONING
    if best is not ChunkKind.OTHER:
        facts.spoke = facts.spoke or best is not ChunkKind.HEARTBEAT
        return best
    if "role" in told and "done" not in told:
        facts.spoke = True
        return ChunkKind.ROLE
    if "usage" in told:
        facts.spoke = True
        return ChunkKind.USAGE
    return ChunkKind.DONE if "done" in told else ChunkKind.OTHER


def _use(usage: Usage, places: _Places, path: bytes, raw: bytes) -> int:
    """Take a number of tokens; return what is to be added to the input."""
    number = whole_number(raw)
    if number is None:
        return 0
    name = places.usage.get(path)
    if name is not None:
        setattr(usage, name, number)
    return number if path in places.apart else 0


def _add_apart(usage: Usage, apart: int) -> None:
    if apart and usage.input is not None:
        usage.input += apart
