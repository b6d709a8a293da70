# SPDX-License-Identifier: Apache-2.0
"""What the lab's server can be told to do; every key of a scenario's `[server]` table is a field here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from netdiag.errors import UsageError

__all__ = ["AnswerSettings", "ServerSettings", "TlsSettings"]

Settings = TypeVar("Settings", "AnswerSettings", "TlsSettings")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How the server speaks TLS."""

    min: str = "1.2"
    """Oldest version, `1.2` or `1.3`."""
    max: str = "1.3"
    """Newest version."""
    tickets: bool = True
    """Whether session tickets are issued."""
    fleet: int = 1
    """So many servers behind one address, without common ticket keys."""
    groups: str = ""
    """The only group that the server takes, as OpenSSL names it (`secp384r1`); empty leaves the library's."""
    padding: int = 0
    """So many further names stand in the certificate, 25 bytes each."""
    handshake_wait_s: float = 0.0
    """Pause before the server reads the ClientHello, seconds."""
    close_notify: bool = True
    """Whether the server says goodbye in TLS before its FIN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """One kind of answer."""

    statuses: tuple[int, ...] = (200,)
    """Status of the first, second, … request on this path; the last one repeats."""
    wait_s: float = 0.01
    """From the whole request to the first byte of the answer, seconds."""
    body_bytes: int = 0
    """Extra bytes in a JSON body."""
    body_wait_s: float = 0.0
    """Pause between head and body, seconds."""
    tokens: int = 12
    """Events of a streamed answer."""
    gap_s: float = 0.01
    """Pause between two events, seconds."""
    token_bytes: int = 0
    """Extra bytes in each event."""
    first_token_s: float = 0.0
    """Pause between the head of a stream and its first event, seconds."""
    stall_at: int = 0
    """Before this event, counted from 0, comes the stall; 0 never."""
    stall_s: float = 0.0
    """Length of the stall, seconds."""
    heartbeats: int = 0
    """So many comments without content are spread over the stall."""
    lump: int = 1
    """So many events are collected and written at once, as a buffering proxy does."""
    cut_after_tokens: int = 0
    """In place of the n-th event the connection is closed in good order; 0 never."""
    cached: tuple[int, ...] = ()
    """Tokens of the prompt that were cached, of the first, second, … answer on this path; the last one repeats. Streams
    then end with an event about usage, and what was not cached costs `prefill_s` until the first event."""
    prompt_tokens: int = 4000
    prefill_s: float = 0.0
    """Time to read a whole prompt that is not cached, seconds."""
    processing_ms: float | None = None
    """What the server says of its own time, in a header."""
    tail_wait_s: float = 0.0
    """Pause between `[DONE]` and the end of the chunked body, seconds."""
    reset_after_tokens: int = 0
    """The n-th event is replaced by a reset; 0 never."""
    reset_after_bytes: int = 0
    """A JSON answer is cut by a reset after so many body bytes; 0 never."""
    retry_after: float | None = None
    """Sent with 429 and 503, seconds."""
    location: str = ""
    """Sent with statuses from 301 to 308: where the client shall ask instead."""
    split: bool = False
    """Write head and body in small pieces, as a careless server does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The whole server. Times in seconds, 0 = never."""

    bind: tuple[str, ...] = ("127.0.0.1",)
    """Addresses to listen on, all with one port."""
    port: int = 0
    """0 lets the kernel choose."""
    tls: TlsSettings | None = None
    """None serves plain HTTP."""
    backlog: int = 256
    """Length of the accept queue."""
    accept_wait_s: float = 0.0
    """Pause before each accept."""
    read_wait_s: float = 0.0
    """Pause between two reads of a request body."""
    receive_buffer: int = 0
    """SO_RCVBUF of accepted sockets, bytes; 0 leaves the kernel's."""
    nodelay: bool = True
    """Whether TCP_NODELAY is set."""
    idle_s: float = 60.0
    """Idle connections are closed after this time."""
    max_requests: int = 0
    """The connection ends with the k-th answer."""
    max_age_s: float = 0.0
    """The connection ends with the first answer past this age."""
    announce: bool = True
    """Whether an answer that ends the connection says `Connection: close`."""
    close_always: bool = False
    """Every answer ends its connection."""
    expect: bool = True
    """Whether `Expect: 100-continue` gets the interim answer that it asks for."""
    http10: bool = False
    """Answer as an HTTP/1.0 server: no keep-alive, no chunks."""
    stale_after: int = 0
    """From the n-th request on a connection on, that request is answered by a reset and nothing else."""
    reload_at_s: tuple[float, ...] = ()
    """At these times after the first accept all idle connections are closed at once."""
    answer: AnswerSettings = field(default_factory=AnswerSettings)
    """How paths without an entry in `routes` are answered."""
    routes: Mapping[str, AnswerSettings] = field(default_factory=dict)
    """Path to answer."""

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> ServerSettings:
        """Return the settings that a scenario's `[server]` table asks for; unknown keys raise UsageError."""
        values = checked(cls, table)
        tls = values.get("tls")
        if tls is None or tls is False:
            values["tls"] = None
        else:
            values["tls"] = section(TlsSettings, {} if tls is True else tls)
        values["answer"] = section(AnswerSettings, values.get("answer", {}))
        values["routes"] = {path: section(AnswerSettings, entry) for path, entry in values.get("routes", {}).items()}
        if isinstance(values.get("bind"), str):
            values["bind"] = (values["bind"],)
        return cls(**values)


def checked(kind: type[Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return `table` with lists as tuples; a key that `kind` has no field for raises UsageError."""
    unknown = sorted(set(table) - {entry.name for entry in fields(kind)})
    if unknown:
        raise UsageError(f"the lab's server knows no setting {', '.join(unknown)}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}


def section(kind: type[Settings], table: Mapping[str, Any]) -> Settings:
    """Return one nested table as its dataclass."""
    return kind(**checked(kind, table))
