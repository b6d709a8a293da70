# SPDX-License-Identifier: Apache-2.0
"""Who reads what the packets carry: one line for each protocol."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from netdiag.capture import keylog
from netdiag.capture.dns import DnsDatagrams, DnsStreams
from netdiag.capture.sink import DatagramSink, StreamSink

__all__ = ["Wishes", "datagram_sinks", "stream_sinks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user said that matters to those who parse."""

    keylog: Path | None = None
    """A file of lines that TLS libraries write where SSLKEYLOGFILE names it."""


def stream_sinks(wishes: Wishes) -> list[StreamSink]:
    """Return who reads TCP streams; for each connection and protocol all of them are asked."""
    from netdiag.capture.plaintext import PlaintextSink  # loads a library of ciphers

    keys = keylog.read(wishes.keylog) if wishes.keylog else None
    return [DnsStreams(), PlaintextSink(keys)]


def datagram_sinks(wishes: Wishes) -> list[DatagramSink]:
    """Return who reads datagrams."""
    from netdiag.capture.quic import QuicSink  # as above

    del wishes
    return [DnsDatagrams(), QuicSink()]
