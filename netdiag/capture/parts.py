# SPDX-License-Identifier: Apache-2.0
"""Who reads what the packets carry: one line for each protocol."""

from __future__ import annotations

from dataclasses import dataclass, field

from netdiag.capture.dns import DnsDatagrams, DnsStreams
from netdiag.capture.keylog import KeyLog
from netdiag.capture.sink import DatagramSink, StreamSink

__all__ = ["Wishes", "datagram_sinks", "stream_sinks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user said that matters to those who parse."""

    keys: KeyLog = field(default_factory=KeyLog)
    """Secrets of TLS sessions, to which those in the file are added."""


def stream_sinks(wishes: Wishes) -> list[StreamSink]:
    """Return who reads TCP streams; for each connection and protocol all of them are asked."""
    from netdiag.capture.plaintext import PlaintextSink  # loads a library of ciphers

    return [DnsStreams(), PlaintextSink(wishes.keys)]


def datagram_sinks(wishes: Wishes) -> list[DatagramSink]:
    """Return who reads datagrams."""
    from netdiag.capture.quic import QuicSink  # as above

    del wishes
    return [DnsDatagrams(), QuicSink()]
