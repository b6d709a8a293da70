# SPDX-License-Identifier: Apache-2.0
"""Real QUIC connections in memory: aioquic at both ends, every datagram that would pass, with its instant."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicHeader, encode_quic_retry, encode_quic_version_negotiation, pull_quic_header
from aioquic.quic.packet import QuicProtocolVersion as Version
from aioquic.tls import SessionTicket

from tests.fakes.tls_session import pair

__all__ = ["Passed", "Version", "shake"]

CLIENT, SERVER = ("192.0.2.1", 50000), ("192.0.2.2", 443)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What passed."""

    datagrams: list[tuple[int, bool, bytes]]
    """Nanoseconds, from the client?, and the bytes."""
    ticket: SessionTicket | None
    """To resume with."""


def shake(
    *,
    version: Version = Version.VERSION_1,
    alpn: Sequence[str] = ("h3",),
    name: str = "api.example.test",
    ticket: SessionTicket | None = None,
    early: bool = False,
    retry: bool = False,
    negotiate: bool = False,
    padding: int = 0,
    drop: Callable[[int, bool], bool] | None = None,
    trip_ms: float = 10.0,
) -> Passed:
    """Connect, send a little data both ways, close. `drop` tells by number and sender which datagrams get lost."""
    tickets: list[SessionTicket] = []
    client_side = QuicConfiguration(
        is_client=True, alpn_protocols=[*alpn, *(f"filler{n}" for n in range(padding))], server_name=name,
        session_ticket=ticket, verify_mode=0, supported_versions=[version], original_version=version,
    )  # fmt: skip
    server_side = QuicConfiguration(is_client=False, alpn_protocols=list(alpn), supported_versions=[version])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pair")
        path.write_bytes(pair())
        server_side.load_cert_chain(path, path)
    client = QuicConnection(configuration=client_side, session_ticket_handler=tickets.append)
    return _Talk(client, server_side, drop or (lambda *_: False), trip_ms / 2e3).run(
        tickets, early=early, retry=retry, negotiate=negotiate
    )


class _Talk:
    halves: ClassVar[dict[bytes, SessionTicket]] = {}
    """What servers remember of the tickets that they gave."""

    def __init__(
        self, client: QuicConnection, server_side: QuicConfiguration, drop: Callable[[int, bool], bool], half: float
    ) -> None:
        self.client, self.server_side, self.drop, self.half = client, server_side, drop, half
        self.known = dict(self.halves)
        self.now = 1.0
        self.passed: list[tuple[int, bool, bytes]] = []

    def run(self, tickets: list[SessionTicket], *, early: bool, retry: bool, negotiate: bool) -> Passed:
        self.client.connect(SERVER, now=self.now)
        if early:
            self.client.send_stream_data(0, b"early" * 10)
        first = self._first()
        if negotiate:
            self._negotiate(_header(first[0]))
            return Passed(datagrams=self.passed, ticket=None)
        origin, retry_id = _header(first[0]).destination_cid, None
        if retry:
            retry_id = os.urandom(8)
            first = self._retry(_header(first[0]), retry_id)
        self.now += self.half
        server = QuicConnection(
            configuration=self.server_side,
            original_destination_connection_id=origin,
            retry_source_connection_id=retry_id,
            session_ticket_fetcher=self.known.get,
            session_ticket_handler=lambda made: self.known.__setitem__(made.ticket, made),
        )
        self._converse(server, first)
        if tickets:
            self.halves[tickets[-1].ticket] = self.known[tickets[-1].ticket]
        return Passed(datagrams=self.passed, ticket=tickets[-1] if tickets else None)

    def _first(self) -> list[bytes]:
        """Return the client's first datagrams that are not lost."""
        while not (first := self._out(self.client, client=True)):
            due = self.client.get_timer()
            assert due is not None
            self.now = due
            self.client.handle_timer(now=due)
        return first

    def _negotiate(self, header: QuicHeader) -> None:
        answer = encode_quic_version_negotiation(
            source_cid=header.destination_cid,
            destination_cid=header.source_cid,
            supported_versions=[0x1A2A3A4A, 0x709A50C4],
        )
        self._note(answer, client=False)

    def _retry(self, header: QuicHeader, retry_id: bytes) -> list[bytes]:
        answer = encode_quic_retry(
            version=header.version or 0,
            source_cid=retry_id,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=b"token" * 5,
        )
        self.now += self.half
        self._note(answer, client=False)
        self.now += self.half
        self.client.receive_datagram(answer, SERVER, now=self.now)
        return self._out(self.client, client=True)

    def _converse(self, server: QuicConnection, first: list[bytes]) -> None:
        to_server = first
        for turn in range(12):
            for data in to_server:
                server.receive_datagram(data, CLIENT, now=self.now)
            if turn == 2:
                server.send_stream_data(server.get_next_available_stream_id(), b"hello" * 300)
            self._timers(server)
            to_client = self._out(server, client=False)
            self.now += self.half
            for data in to_client:
                self.client.receive_datagram(data, SERVER, now=self.now)
            if turn == 1:
                self.client.send_stream_data(self.client.get_next_available_stream_id(), b"GET /" * 20, end_stream=True)
            if turn == 8:
                self.client.close(error_code=0x100)
            self._timers(self.client)
            to_server = self._out(self.client, client=True)
            self.now += self.half

    def _timers(self, end: QuicConnection) -> None:
        due = end.get_timer()
        if due is not None and due <= self.now:
            end.handle_timer(now=self.now)

    def _note(self, data: bytes, *, client: bool) -> None:
        self.passed.append((int(self.now * 1e9), client, data))

    def _out(self, end: QuicConnection, *, client: bool) -> list[bytes]:
        """Return what an end sends and is not lost; all of it was seen where it was sent."""
        sent = []
        for data, _ in end.datagrams_to_send(now=self.now):
            number = sum(1 for _, who, _ in self.passed if who == client)
            self._note(data, client=client)
            if not self.drop(number, client):
                sent.append(data)
        return sent


def _header(data: bytes) -> QuicHeader:
    return pull_quic_header(Buffer(data=data))
