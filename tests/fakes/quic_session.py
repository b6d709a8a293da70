# SPDX-License-Identifier: Apache-2.0
"""Real QUIC connections in memory: aioquic at both ends, every datagram that would pass, with its instant."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicProtocolVersion as Version
from aioquic.quic.packet import encode_quic_retry, encode_quic_version_negotiation, pull_quic_header
from aioquic.buffer import Buffer
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
    known = {ticket.ticket: ticket} if ticket else {}
    client = QuicConnection(configuration=client_side, session_ticket_handler=tickets.append)
    return _Talk(client, server_side, known, drop or (lambda *_: False), trip_ms / 2e3).run(
        tickets, early=early, retry=retry, negotiate=negotiate
    )


class _Talk:
    def __init__(self, client, server_side, known, drop, half) -> None:
        self.client, self.server_side, self.known, self.drop, self.half = client, server_side, known, drop, half
        self.server: QuicConnection | None = None
        self.now = 1.0
        self.passed: list[tuple[int, bool, bytes]] = []

    def run(self, tickets, *, early, retry, negotiate) -> Passed:
        self.client.connect(SERVER, now=self.now)
        if early:
            self.client.send_stream_data(0, b"early" * 10)
        first = self._out(self.client, client=True)
        destination = b""
        if negotiate:
            header = pull_quic_header(Buffer(data=first[0]))
            self._note(
                encode_quic_version_negotiation(
                    source_cid=header.destination_cid,
                    destination_cid=header.source_cid,
                    supported_versions=[0x1A2A3A4A, 0x709A50C4],
                ),
                client=False,
            )
            return Passed(datagrams=self.passed, ticket=None)
        retry_id = None
        if retry:
            header = pull_quic_header(Buffer(data=first[0]))
            retry_id, destination = os.urandom(8), header.destination_cid
            answer = encode_quic_retry(
                version=header.version,
                source_cid=retry_id,
                destination_cid=header.source_cid,
                original_destination_cid=header.destination_cid,
                retry_token=b"token" * 5,
            )
            self.now += self.half
            self._note(answer, client=False)
            self.now += self.half
            self.client.receive_datagram(answer, SERVER, now=self.now)
            first = self._out(self.client, client=True)
        self.now += self.half
        header = pull_quic_header(Buffer(data=first[0]))
        self.server = QuicConnection(
            configuration=self.server_side,
            original_destination_connection_id=destination or header.destination_cid,
            retry_source_connection_id=retry_id,
            session_ticket_fetcher=self.known.get,
            session_ticket_handler=lambda made: self.known.__setitem__(made.ticket, made),
        )
        to_server, to_client = first, []
        for turn in range(12):
            for data in to_server:
                self.server.receive_datagram(data, CLIENT, now=self.now)
            if turn == 2:
                self.server.send_stream_data(self.server.get_next_available_stream_id(), b"hello" * 300)
            self._timers(self.server)
            to_client = self._out(self.server, client=False)
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
        ticket = tickets[-1] if tickets else None
        if ticket:
            server_ticket = self.known[ticket.ticket]
            ticket.server_half = server_ticket  # type: ignore[attr-defined]
        return Passed(datagrams=self.passed, ticket=ticket)

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
