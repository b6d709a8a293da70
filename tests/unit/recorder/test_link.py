# SPDX-License-Identifier: Apache-2.0
"""The conversation between front and recorder: whole messages, descriptors, limits, peers."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.recorder.link import MAX_DESCRIPTORS, MAX_LINE_BYTES, Link

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def make_pair() -> tuple[Link, Link]:
    front, recorder = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Link(front), Link(recorder)


@pytest.fixture
def pair() -> Iterator[tuple[Link, Link]]:
    front, recorder = make_pair()
    yield front, recorder
    front.close()
    recorder.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@given(st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=5))
def test_a_message_arrives_as_it_was_sent(message: dict[str, object]) -> None:
    front, recorder = make_pair()
    with front, recorder:
        front.send(message)
        assert recorder.receive() == (message, ())


def test_messages_keep_their_order_and_borders(pair: tuple[Link, Link]) -> None:
    front, recorder = pair
    for number in range(20):
        front.send({"number": number})
    assert [recorder.receive()[0]["number"] for _ in range(20)] == list(range(20))
    assert recorder.poll() is None


def test_a_descriptor_travels_and_is_closed_on_exec(pair: tuple[Link, Link], tmp_path: Path) -> None:
    front, recorder = pair
    with (tmp_path / "recording").open("wb") as file:
        front.send({"do": "start"}, fds=[file.fileno()])
    message, fds = recorder.receive()
    assert message == {"do": "start"}
    assert not os.get_inheritable(fds[0])
    os.write(fds[0], b"written by the recorder")
    os.close(fds[0])
    assert (tmp_path / "recording").read_bytes() == b"written by the recorder"


def test_the_end_of_the_peer_is_the_end_of_file(pair: tuple[Link, Link]) -> None:
    front, recorder = pair
    front.send({"do": "stop"})
    front.close()
    assert recorder.receive()[0] == {"do": "stop"}
    with pytest.raises(EOFError):
        recorder.receive()
    with pytest.raises(BrokenPipeError):
        recorder.send({"say": "ended"})


def test_a_peer_that_left_with_unread_messages_is_the_end_of_file_too(pair: tuple[Link, Link]) -> None:
    front, recorder = pair
    front.send({"do": "start"})
    recorder.close()
    with pytest.raises(EOFError):
        front.receive()


def test_waiting_is_bounded(pair: tuple[Link, Link]) -> None:
    with pytest.raises(TimeoutError):
        pair[0].receive(timeout_s=0.01)


def test_the_longest_message_passes_and_a_longer_one_is_refused(pair: tuple[Link, Link]) -> None:
    front, recorder = pair
    overhead = len(b'{"x":""}\n')
    front.send({"x": "a" * (MAX_LINE_BYTES - overhead)})
    assert len(recorder.receive()[0]["x"]) == MAX_LINE_BYTES - overhead
    with pytest.raises(ValueError, match="at most 65536"):
        front.send({"x": "a" * (MAX_LINE_BYTES - overhead + 1)})


def raw_pair() -> tuple[socket.socket, Link]:
    raw, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return raw, Link(other)


@pytest.mark.parametrize(
    "packet",
    [b"{", b"[1]\n", b"7\n", b"\xff\xfe\n", b'{"a":' * 20_000, b"x" * (MAX_LINE_BYTES + 1), b'{"a":1}\n{"b":2}\n'],
)
def test_what_is_not_one_object_is_refused(packet: bytes) -> None:
    raw, recorder = raw_pair()
    with raw, recorder:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MAX_LINE_BYTES)
        raw.send(packet)
        with pytest.raises(ValueError, match=r"."):
            recorder.receive()


@given(st.binary(min_size=1, max_size=400))
def test_any_packet_gives_a_message_or_a_value_error(packet: bytes) -> None:
    raw, recorder = raw_pair()
    with raw, recorder:
        raw.send(packet)
        try:
            message, fds = recorder.receive()
        except ValueError:
            return
        assert isinstance(message, dict)
        assert fds == ()


def test_descriptors_of_a_refused_message_are_closed() -> None:
    raw, recorder = raw_pair()
    with raw, recorder, Path(os.devnull).open("rb") as file:
        before = open_descriptors()
        socket.send_fds(raw, [b"not json"], [file.fileno()] * MAX_DESCRIPTORS)
        with pytest.raises(ValueError, match="not a line of JSON"):
            recorder.receive()
        socket.send_fds(raw, [b"{}\n"], [file.fileno()] * (2 * MAX_DESCRIPTORS))
        with pytest.raises(ValueError, match="more descriptors"):
            recorder.receive()
        assert open_descriptors() == before
