# SPDX-License-Identifier: Apache-2.0
"""One connection of the lab's server: requests in, answers out, and how it ends."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from netdiag.lab.answers import HEARTBEAT, head, json_body, stream_events, usage_event
from netdiag.lab.facts import FactLog
from netdiag.lab.settings import AnswerSettings, ServerSettings

__all__ = ["Exchange", "Request", "ServerView"]

BODY_TIMEOUT_S = 30.0
CUT_WAIT_S = 0.002
"""What was sent shall arrive before a reset overtakes it."""


class ServerView(Protocol):
    """What a connection needs of its server."""

    settings: ServerSettings
    log: FactLog

    def turn(self, path: str) -> int:
        """Count requests of one path, from 0."""
        ...

    def reload_signals(self) -> list[int]:
        """Descriptors that turn readable at a reload."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, read to its end."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    began: int
    """When its head was complete, CLOCK_MONOTONIC ns."""

    @property
    def wants_stream(self) -> bool:
        """Whether the JSON body asks for `stream`."""
        try:
            asked = json.loads(self.body or b"{}")
        except ValueError:
            return False
        return isinstance(asked, dict) and asked.get("stream") is True


class Exchange:
    """Serves one connection until either side ends it."""

    def __init__(self, server: ServerView, number: int, sock: socket.socket) -> None:
        self.server = server
        self.settings = server.settings
        self.number = number
        self.sock = sock
        self.buffer = b""
        self.served = 0
        self.reloads = server.reload_signals()
        self.opened = time.monotonic()

    def run(self) -> None:
        """Answer requests; returns when the connection is over and its end is written down."""
        try:
            self._serve()
        except (ConnectionError, ssl.SSLError) as error:  # the client broke it off, which is a fact like any other
            self._note_close("client", type(error).__name__)
            self.sock.close()

    def _serve(self) -> None:
        while True:
            ended = self._wait_for_head()
            if ended is not None:
                return self._close(*ended)
            if self.settings.stale_after and self.served >= self.settings.stale_after:
                return self._reset("stale")  # as if the request had crossed our FIN: no byte of an answer
            request = self._read_request()
            if request is None:
                return self._close("client", "in mid-request")
            self.served += 1
            last = self._is_last(request)
            if not self._answer(request, last=last):
                return None
            if last:
                return self._close("server", "last answer")

    def _is_last(self, request: Request) -> bool:
        settings = self.settings
        full = bool(settings.max_requests) and self.served >= settings.max_requests
        old = bool(settings.max_age_s) and time.monotonic() - self.opened >= settings.max_age_s
        asked = request.headers.get("connection", "").lower() == "close"
        return full or old or asked or settings.close_always or settings.http10

    def _wait_for_head(self) -> tuple[str, str] | None:
        """Read up to the end of a request's head; else return who ended the connection and why."""
        while b"\r\n\r\n" not in self.buffer:
            ready = self._readable(self.settings.idle_s, self.reloads)
            if ready is None:
                return ("server", "idle")
            if ready in self.reloads:
                return ("server", "reload")
            if not self._receive():
                return ("client", "end of file")
        return None

    def _readable(self, timeout: float, others: list[int]) -> int | None:
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return self.sock.fileno()
        ready, _, _ = select.select([self.sock.fileno(), *others], [], [], timeout)
        return int(ready[0]) if ready else None

    def _receive(self) -> bytes:
        data = self.sock.recv(65536)
        self.buffer += data
        return data

    def _read_request(self) -> Request | None:
        began = time.monotonic_ns()
        top, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        line, *rest = top.decode("latin-1").split("\r\n")
        method, path, _ = line.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (entry.partition(":") for entry in rest)}
        if headers.get("expect", "").lower() == "100-continue" and self.settings.expect:
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self._chunked() if "chunked" in headers.get("transfer-encoding", "") else self._sized(headers)
        if body is None:
            return None
        return Request(method=method, path=path.split("?")[0], headers=headers, body=body, began=began)

    def _sized(self, headers: Mapping[str, str]) -> bytes | None:
        length = int(headers.get("content-length", "0"))
        while len(self.buffer) < length:
            time.sleep(self.settings.read_wait_s)
            if self._readable(BODY_TIMEOUT_S, []) is None or not self._receive():
                return None
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return body

    def _chunked(self) -> bytes | None:
        body = b""
        while True:
            while b"\r\n" not in self.buffer:
                if self._readable(BODY_TIMEOUT_S, []) is None or not self._receive():
                    return None
            line, _, self.buffer = self.buffer.partition(b"\r\n")
            size = int(line.split(b";")[0], 16)
            while len(self.buffer) < size + 2:
                if self._readable(BODY_TIMEOUT_S, []) is None or not self._receive():
                    return None
            body, self.buffer = body + self.buffer[:size], self.buffer[size + 2 :]
            if size == 0:
                return body

    def _answer(self, request: Request, *, last: bool) -> bool:
        """Send the answer; False when a reset took its place."""
        answer = self.settings.routes.get(request.path, self.settings.answer)
        turn = self.server.turn(request.path)
        status = answer.statuses[min(turn, len(answer.statuses) - 1)]
        time.sleep(answer.wait_s)
        stamps: list[int] = []
        whole = False
        try:
            if request.wants_stream and status == 200 and not self.settings.http10:
                whole = self._stream(answer, stamps, turn, last=last)
            else:
                whole = self._json(answer, status, stamps, last=last)
        finally:
            members = {"n": self.served, "method": request.method, "path": request.path, "status": status}
            self.server.log.write("request", conn=self.number, began=request.began, sent=stamps, whole=whole, **members)
        if not whole:
            if answer.cut_after_tokens:
                self._close("server", "in mid-answer")
            else:
                self._reset("in mid-answer")
        return whole

    def _json(self, answer: AnswerSettings, status: int, stamps: list[int], *, last: bool) -> bool:
        body = json_body(status, answer.body_bytes)
        told, old = last and self.settings.announce, self.settings.http10
        where, after = answer.location, answer.retry_after
        top = head(
            status,
            length=len(body),
            close=told,
            http10=old,
            retry_after=after,
            location=where,
            processing_ms=answer.processing_ms,
        )
        if last and not answer.body_wait_s:
            self._cork()
        whole = not answer.reset_after_bytes
        if answer.split or answer.body_wait_s:
            self._send(top, stamps)
            time.sleep(answer.body_wait_s)
            self._send_pieces(body, split=answer.split)
        else:
            self._send(top + (body if whole else body[: answer.reset_after_bytes]), stamps)
        if not whole:
            time.sleep(CUT_WAIT_S)
        return whole

    def _send(self, data: bytes, stamps: list[int]) -> None:
        self.sock.sendall(data)
        stamps.append(time.monotonic_ns())

    def _send_pieces(self, body: bytes, *, split: bool) -> None:
        middle = len(body) // 2 if split else 0
        for piece in (body[:middle], body[middle:]):
            if piece:
                self.sock.sendall(piece)

    def _stream(self, answer: AnswerSettings, stamps: list[int], turn: int, *, last: bool) -> bool:
        told = last and self.settings.announce
        top = head(200, length=None, close=told, http10=False, retry_after=None, processing_ms=answer.processing_ms)
        self.sock.sendall(top)
        cached = answer.cached[min(turn, len(answer.cached) - 1)] if answer.cached else answer.prompt_tokens
        time.sleep(answer.first_token_s + answer.prefill_s * (1 - cached / answer.prompt_tokens))
        held = b""
        for index, event in enumerate(stream_events(answer.tokens, answer.token_bytes)):
            if index:
                self._pause(answer, stalls=bool(answer.stall_at) and index == answer.stall_at)
            if answer.reset_after_tokens and index >= answer.reset_after_tokens:
                time.sleep(CUT_WAIT_S)
                return False
            if answer.cut_after_tokens and index >= answer.cut_after_tokens:
                return False
            held += event
            if (index + 1) % answer.lump == 0 or index == answer.tokens - 1:
                self._chunk(held, split=answer.split)
                held = b""
            stamps.append(time.monotonic_ns())
        if answer.cached:
            self._chunk(usage_event(answer.prompt_tokens, cached, answer.tokens), split=False)
        self._chunk(b"data: [DONE]\n\n", split=False)
        time.sleep(answer.tail_wait_s)
        if last:
            self._cork()
        self.sock.sendall(b"0\r\n\r\n")
        return True

    def _pause(self, answer: AnswerSettings, *, stalls: bool) -> None:
        """Wait as long as between two events; in a stall with its heartbeats."""
        if not stalls:
            time.sleep(answer.gap_s)
            return
        for _ in range(answer.heartbeats):
            time.sleep(answer.stall_s / (answer.heartbeats + 1))
            self._chunk(HEARTBEAT, split=False)
        time.sleep(answer.stall_s / (answer.heartbeats + 1))

    def _chunk(self, data: bytes, *, split: bool) -> None:
        size = b"%x\r\n" % len(data)
        if split:
            for piece in (size, data, b"\r\n"):
                self.sock.sendall(piece)
        else:
            self.sock.sendall(size + data + b"\r\n")

    def _cork(self) -> None:
        """Hold the last answer back until our FIN goes with it.

        On loopback a client that reads `Connection: close` can send its FIN before ours, and then nobody could
        tell from the packets who wanted the end. On a real path both arrive together, as they do this way.
        """
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)

    def _note_close(self, by: str, why: str) -> None:
        self.server.log.write("close", conn=self.number, by=by, why=why)

    def _close(self, by: str, why: str) -> None:
        """End the connection as most servers do: goodbye in TLS, FIN, and whatever comes later gets a reset."""
        self._note_close(by, why)
        polite = self.settings.tls is not None and self.settings.tls.close_notify
        if isinstance(self.sock, ssl.SSLSocket) and by == "server" and polite:
            self.sock.setblocking(False)  # the alert leaves at once, and we do not wait for the peer's
            with contextlib.suppress(ssl.SSLError, OSError):
                self.sock.unwrap()
        self.sock.close()

    def _reset(self, why: str) -> None:
        self._note_close("server", f"reset {why}")
        raw = socket.socket(fileno=self.sock.detach())  # below TLS, which would say goodbye first
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()
