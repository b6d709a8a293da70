# SPDX-License-Identifier: Apache-2.0
"""Requests as the analyses see them: one `Asked` per row, with its connection, the parts of its time and its stream.

Nothing here judges. Numbers that the tables do not know stay NaN, texts and flags None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netdiag.analysis.links import Link, column, flag, known, number, text
from netdiag.findings import Evidence

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Asked", "asked_of", "certainty", "examples"]

_MS = 1e6
_PLAINTEXT = "plaintext"
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request of a traced client. Instants in ns since the start, durations in ms, sizes in bytes."""

    row: int
    id: str
    link: Link
    source: str | None
    """`plaintext`, `records` or `sockets`."""
    protocol: str | None
    stream_id: float
    sequence: float
    pid: float
    tid: float
    method: str | None
    host: str | None
    path: str | None
    model: str | None
    status: float
    error: str | None
    complete: bool | None
    reused: bool | None
    retry_of: str | None
    headers: Mapping[str, str]
    """Kept fields of the answer, lower-case."""
    request_headers: Mapping[str, str]
    request_bytes: float
    response_bytes: float
    started_ns: float
    began_ns: float
    sent_ns: float
    first_byte_ns: float
    ended_ns: float
    dns_ms: float
    connect_ms: float
    client_setup_ms: float
    tls_ms: float
    queue_ms: float
    send_ms: float
    wait_ms: float
    receive_ms: float
    reader_lag_ms: float
    total_ms: float
    server_reported_ms: float
    input_tokens: float
    cached_tokens: float
    blocked_ms: float
    """HTTP/2: how long one side stood at the end of the other's window."""
    concurrent: float
    """HTTP/2: how many streams at once the server's settings allow."""
    stream: Mapping[str, Any] | None = field(default=None)
    """The facts of its stream, None where the answer is none."""

    @property
    def exact(self) -> bool:
        """Seen in plaintext: what it says is known, not only when and how much."""
        return self.source == _PLAINTEXT

    @property
    def answered(self) -> bool:
        """At least one byte of an answer came."""
        return known(self.first_byte_ns)

    @property
    def unanswered(self) -> bool:
        """Not a byte of an answer came; not so where a capture may lack one."""
        return not self.answered and not self.link.unseen

    @property
    def until_ns(self) -> float:
        """The end of the answer, or of its connection where none came; NaN where it went on."""
        return self.ended_ns if known(self.ended_ns) else self.link.closing_ns

    @property
    def setup_ms(self) -> float:
        """What it waited for its connection: look-up, connect, TLS and the program's own preparation."""
        return sum(part for part in (self.dns_ms, self.connect_ms, self.tls_ms, self.client_setup_ms) if known(part))

    def fact(self, name: str) -> float:
        """Return a number of the stream's facts, NaN where there is none."""
        return number((self.stream or {}).get(name))


_TEXTS = frozenset({"id", "source", "protocol", "method", "host", "path", "model", "error", "retry_of"})
_FLAGS = frozenset({"complete", "reused"})
_TABLES = frozenset({"headers", "request_headers"})
_APART = frozenset({"row", "link", "stream"})


def asked_of(requests: pd.DataFrame, links: Sequence[Link], *, served: bool = False) -> tuple[Asked, ...]:
    """Return the requests on connections that the traced programs opened, in the order of the table.

    `served`: those on connections that they accepted, instead.
    """
    names = [name for name in Asked.__dataclass_fields__ if name not in _APART]
    cells = [_cells(requests, name) for name in names]
    rows, streams = column(requests, "connection"), column(requests, "stream")
    found = []
    for row, (connection, stream, *told) in enumerate(zip(rows, streams, *cells, strict=True)):
        at = int(number(connection)) if known(number(connection)) else -1
        if not 0 <= at < len(links) or (links[at].role == "server") != served:
            continue
        values: dict[str, Any] = dict(zip(names, told, strict=True))
        values["id"] = values["id"] or f"r{row + 1}"
        facts = stream if isinstance(stream, Mapping) else None
        found.append(Asked(row=row, link=links[at], stream=facts, **values))
    return tuple(found)


def _cells(requests: pd.DataFrame, name: str) -> list[Any]:
    """Return a column as `Asked` has it; whole columns, for there may be a million calls."""
    values = column(requests, name)
    if name in requests and requests[name].dtype == "float64":
        return list(values)
    if name in _TABLES:
        return [value if isinstance(value, Mapping) else {} for value in values]
    convert = text if name in _TEXTS else flag if name in _FLAGS else number
    return list(map(convert, values))


def certainty(asked: Iterable[Asked], exact: float, inferred: float) -> float:
    """Return a confidence: `exact` where all were seen in plaintext, `inferred` where only sizes and times were."""
    return exact if all(call.exact for call in asked) else inferred


def examples(lines: Iterable[tuple[Asked, str]]) -> tuple[Evidence, ...]:
    """Return the first few requests with their notes as evidence, and how many more there are."""
    found = list(lines)
    shown = [Evidence(kind="request", id=call.id, note=_named(call, note)) for call, note in found[:_SHOWN]]
    if len(found) > _SHOWN:
        shown.append(Evidence(kind="request", id=None, note=f"and {len(found) - _SHOWN} more like these"))
    return tuple(shown)


def _named(call: Asked, note: str) -> str:
    asked = " ".join(part for part in (call.method, call.path) if part)
    return f"{asked}: {note}" if asked else note
