# SPDX-License-Identifier: Apache-2.0
"""Who reads what the packets carry."""

from __future__ import annotations

from netdiag.capture.parts import Wishes, datagram_sinks, stream_sinks
from netdiag.capture.sink import DatagramSink, StreamSink


def test_all_parts_keep_to_the_interface():
    sinks: list[StreamSink | DatagramSink] = [*stream_sinks(Wishes()), *datagram_sinks(Wishes())]
    for sink in sinks:
        sink.secrets(0, b"")
        assert all("kind" in fact for fact in sink.finish().facts)
    assert all(sink.ports for sink in datagram_sinks(Wishes()) if not sink.quic)
