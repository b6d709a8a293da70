# SPDX-License-Identifier: Apache-2.0
"""QUIC connections of a capture: what their Initial packets and the kinds of the others tell, as facts `quic`.

Who sends the first Initial is the client. Bytes and requests of an encrypted transport stay unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from netdiag.capture.sink import Datagram, Harvest
from netdiag.decode import quic
from netdiag.decode.quic import Kind, Packet
from netdiag.decode.tls import Messages, read
from netdiag.decode.tls_names import alert_name

__all__ = ["QuicSink"]

COOKIES = 1 << 61
"""Cookies of QUIC connections begin here; TCP's are small."""
_PORTS = frozenset({443, 8443, 4433, 784, 853, 8853})
_MAX_CONNECTIONS = 1 << 16
_MAX_HELLO = 1 << 15
_MAX_PARTS = 64
_MAX_IDS = 8
_CRYPTO_ERROR = 0x100

Address = tuple[bytes, int]


@dataclass(slots=True)
class _Messages:
    """The handshake messages of one direction, from parts in any order."""

    parts: dict[int, bytes] = field(default_factory=dict)
    data: bytes = b""
    done_ns: int = 0

    def take(self, offset: int, data: bytes, at_ns: int) -> bool:
        """Take a part; tell whether it was there before."""
        known = offset in self.parts or offset + len(data) <= len(self.data)
        if not known and len(self.parts) < _MAX_PARTS and offset + len(data) <= _MAX_HELLO:
            self.parts[offset] = data
            self._join(at_ns)
        return known

    def _join(self, at_ns: int) -> None:
        while (part := next((o for o in self.parts if o <= len(self.data) < o + len(self.parts[o])), None)) is not None:
            self.data += self.parts[part][len(self.data) - part :]
        if not self.done_ns and len(self.data) >= 4 and len(self.data) >= 4 + int.from_bytes(self.data[1:4], "big"):
            self.done_ns = at_ns

    @property
    def missing(self) -> bool:
        """Tell whether a part is there that does not follow on."""
        return any(offset > len(self.data) for offset in self.parts)


@dataclass(slots=True)
class _Connection:
    number: int
    client: Address
    server: Address
    version: int
    first_id: bytes
    opened_ns: int
    keys: tuple[quic.InitialKeys, quic.InitialKeys]
    ids: dict[bool, list[bytes]]
    """Connection ids by who is addressed: True = the client."""
    said: dict[bool, _Messages] = field(default_factory=lambda: {True: _Messages(), False: _Messages()})
    refused: tuple[int, ...] = ()
    retry_ns: int = 0
    answered_ns: int = 0
    ready_ns: int = 0
    established_ns: int = 0
    last_ns: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    zero_rtt: int = 0
    flight_bytes: int = 0
    hellos: int = 0
    """Datagrams in which the client repeats what it had said."""
    closed: dict[str, Any] | None = None


class QuicSink:
    """Finds QUIC connections among datagrams."""

    quic = True

    def __init__(self) -> None:
        self.ports: frozenset[int] = _PORTS
        self._open: dict[tuple[Address, Address], _Connection] = {}
        self._all: list[_Connection] = []
        self._last_ns = 0

    def secrets(self, kind: int, data: bytes) -> None:
        """Secrets are not used: what they would open is not read."""

    def datagram(self, datagram: Datagram) -> None:
        """Take one datagram."""
        self._last_ns = max(self._last_ns, datagram.at_ns)
        data = bytes(datagram.data)
        if not data or not data[0] & 0xC0:
            return
        ends = (datagram.source, datagram.destination)
        connection, client = self._open.get(ends), True
        if connection is None:
            connection, client = self._open.get(ends[::-1]), False
        if connection is None and not data[0] & 0x80:
            return
        for packet in quic.packets(data):
            if packet.kind is Kind.INITIAL and (connection is None or self._is_new(connection, packet, client=client)):
                begun = self._begin(datagram, packet)
                connection, client = (begun, True) if begun else (connection, client)
            if connection is None:
                return
            self._take(connection, packet, datagram, client=client)

    def _is_new(self, connection: _Connection, packet: Packet, *, client: bool) -> bool:
        """Tell whether an Initial on known ports is of another connection than before."""
        known = packet.destination in connection.ids[not client] or packet.destination == connection.first_id
        return client and not known and packet.source not in connection.ids[True]

    def _begin(self, datagram: Datagram, packet: Packet) -> _Connection | None:
        """Begin a connection, if this is a client's first Initial: only such a one opens with keys of its own id."""
        keys = quic.initial_keys(packet.destination, packet.version)
        if keys is None or len(self._all) >= _MAX_CONNECTIONS or quic.open_initial(packet, keys[0]) is None:
            return None
        found = _Connection(
            number=len(self._all) + 1,
            client=datagram.source,
            server=datagram.destination,
            version=packet.version,
            first_id=packet.destination,
            opened_ns=datagram.at_ns,
            keys=keys,
            ids={True: [packet.source], False: [packet.destination]},
        )
        self._all.append(found)
        self._open[datagram.source, datagram.destination] = found
        self.ports |= {datagram.destination[1]}
        return found

    def _take(self, connection: _Connection, packet: Packet, datagram: Datagram, *, client: bool) -> None:
        if not self._is_addressed(connection, packet, client=client):
            return
        if packet.kind is Kind.NEGOTIATION:
            if not client and not connection.answered_ns:
                connection.refused = connection.refused or packet.versions
        elif packet.kind is Kind.RETRY:
            if not client and not connection.retry_ns and quic.is_retry_of(packet, connection.first_id):
                self._retry(connection, packet, datagram.at_ns)
        else:
            self._note(connection, packet, datagram.at_ns, client=client)
        connection.last_ns[client] = datagram.at_ns

    def _note(self, connection: _Connection, packet: Packet, at_ns: int, *, client: bool) -> None:
        """Keep what a packet's kind and instant tell."""
        if not client and not connection.answered_ns:
            connection.answered_ns = at_ns
        ids = connection.ids[client]
        if packet.source and packet.source not in ids and len(ids) < _MAX_IDS:
            ids.append(packet.source)
        if packet.kind is Kind.INITIAL:
            self._initial(connection, packet, at_ns, client=client)
        elif packet.kind is Kind.ONE_RTT:
            if client and connection.answered_ns:
                connection.established_ns = connection.established_ns or at_ns
            elif not client:
                connection.ready_ns = connection.ready_ns or at_ns
        connection.zero_rtt += packet.kind is Kind.ZERO_RTT and client
        if not client and packet.kind in (Kind.INITIAL, Kind.HANDSHAKE) and not connection.established_ns:
            connection.flight_bytes += len(packet.data)

    def _is_addressed(self, connection: _Connection, packet: Packet, *, client: bool) -> bool:
        """Tell whether a packet is for this connection; in a short header an id of who gets it comes first."""
        if packet.kind is not Kind.ONE_RTT:
            return packet.destination in connection.ids[not client]
        return any(packet.data[1 : 1 + len(each)] == each for each in connection.ids[not client])

    def _retry(self, connection: _Connection, packet: Packet, at_ns: int) -> None:
        keys = quic.initial_keys(packet.source, packet.version)
        if keys is not None:
            connection.retry_ns, connection.keys = at_ns, keys
            connection.ids[False].append(packet.source)

    def _initial(self, connection: _Connection, packet: Packet, at_ns: int, *, client: bool) -> None:
        contents = quic.open_initial(packet, connection.keys[0 if client else 1])
        if contents is None:
            self._negotiated(connection, packet, client=client)
            contents = quic.open_initial(packet, connection.keys[0 if client else 1])
        if contents is None:
            return
        said = connection.said[client]
        again = [said.take(part.offset, part.data, at_ns) for part in contents.crypto]
        connection.hellos += client and any(again) and not connection.retry_ns
        if contents.close is not None and connection.closed is None:
            code = contents.close.code
            alert = alert_name(code - _CRYPTO_ERROR) if _CRYPTO_ERROR <= code < 2 * _CRYPTO_ERROR else None
            connection.closed = {"at_ns": at_ns, "client": client, "code": code, "alert": alert}

    def _negotiated(self, connection: _Connection, packet: Packet, *, client: bool) -> None:
        """Follow a server that goes on in another version than the client began with (RFC 9368)."""
        if packet.version == connection.version:
            return
        destination = connection.ids[False][-1] if connection.retry_ns else connection.first_id
        keys = quic.initial_keys(destination, packet.version)
        if keys is not None and quic.open_initial(packet, keys[0 if client else 1]) is not None:
            connection.version, connection.keys = packet.version, keys

    def finish(self) -> Harvest:
        """Return a fact for each connection."""
        return Harvest(facts=[_fact(each, self._last_ns) for each in self._all])


def _fact(connection: _Connection, last_ns: int) -> dict[str, Any]:
    client, server = (connection.said[side] for side in (True, False))
    asked, answered = read(client.data), read(server.data)
    return {
        "kind": "quic",
        "cookie": COOKIES + connection.number,
        "client": {"ip": connection.client[0].hex(), "port": connection.client[1]},
        "server": {"ip": connection.server[0].hex(), "port": connection.server[1]},
        "version": quic.version_name(connection.version),
        "refused": [quic.version_name(each) for each in connection.refused],
        "opened_ns": connection.opened_ns,
        "retry_ns": connection.retry_ns,
        "answered_ns": connection.answered_ns,
        "hello_ns": client.done_ns,
        "server_hello_ns": server.done_ns,
        "ready_ns": connection.ready_ns,
        "established_ns": connection.established_ns,
        "last_sent_ns": connection.last_ns[True],
        "last_received_ns": connection.last_ns[False],
        "file_ends_ns": last_ns,
        "zero_rtt": connection.zero_rtt,
        "repeated": connection.hellos,
        "flight_bytes": connection.flight_bytes,
        "closed": connection.closed,
        **_agreed(asked, answered),
    }


def _agreed(asked: Messages, answered: Messages) -> dict[str, Any]:
    hello = asked.client_hellos[0] if asked.client_hellos else None
    chosen = answered.final
    return {
        "sni": hello.sni if hello else None,
        "alpn": list(hello.alpn) if hello else None,
        "hello_bytes": hello.size if hello else None,
        "whole": hello is not None and not hello.cut,
        "psk_offered": hello.psk if hello else None,
        "early_offered": hello.early_data if hello else None,
        "tls": chosen.version if chosen else None,
        "cipher": chosen.cipher if chosen else None,
        "group": chosen.group if chosen else None,
        "psk": chosen.psk if chosen else None,
        "hello_retry": any(each.retry for each in answered.server_hellos) if answered.server_hellos else None,
    }
