# SPDX-License-Identifier: Apache-2.0
"""Frames of plaintext: cut anywhere they come out whole, and foreign ones are refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.recording.pieces import MAX_FRAME_BYTES, Frames, PlainRecord, control, frame_header, records
from netdiag.testing import struct_layout

LAYOUT = struct_layout("plain_event").in_ring(stream=11, name="plain")
LARGE = struct_layout("plain_large_event").in_ring(stream=12, name="plain_large")
LAYOUTS = control({"say": "layouts", "layouts": [LAYOUT.to_json(), LARGE.to_json()]})


def record(layout=LAYOUT, data=b"", end=b"", **members):
    said = {"length": len(data) + len(end), "copied": len(data), "tail": len(end), **members}
    raw = bytearray(layout.stride)
    for field in layout.fields:
        if field.name == "data":
            start = layout.offset + field.offset
            raw[start : start + len(data + end)] = data + end
        else:
            start = layout.offset + field.offset
            raw[start : start + field.size] = said.get(field.name, 0).to_bytes(field.size, "little")
    return bytes(raw)


def frame(stream, body):
    return frame_header(stream, len(body)) + body


def read(data, step):
    frames = Frames()
    found: list[PlainRecord] = []
    for at in range(0, len(data), step):
        for layout, body in frames.feed(data[at : at + step]):
            found += records(layout, body)
    return frames, found


@given(st.integers(1, 5000))
def test_frames_come_out_whole_however_they_were_cut(step):
    small = record(data=b"GET / HTTP/1.1", time=7, cookie=9, handle=3, direction=1, flags=1, offset=1 << 40)
    large = record(LARGE, data=b"a" * 3072, end=b"z" * 1024, length=9000, direction=2, tid=5)
    last = control({"say": "losses", "streams": {"plain": {"seen": 3, "lost": 0}}})
    data = LAYOUTS + frame(11, small * 2) + frame(12, large) + last
    frames, found = read(data, step)
    assert [piece.data for piece in found] == [b"GET / HTTP/1.1", b"GET / HTTP/1.1", b"a" * 3072]
    assert (found[0].time, found[0].cookie, found[0].handle, found[0].offset) == (7, 9, 3, 1 << 40)
    assert (found[2].tail, found[2].length, found[2].tid) == (b"z" * 1024, 9000, 5)
    assert frames.losses == {"plain": {"seen": 3, "lost": 0}}


def test_lengths_that_do_not_fit_the_record_are_cut():
    (found,) = read(LAYOUTS + frame(11, record(data=b"x", copied=5000, tail=7)), 1 << 20)[1]
    assert (len(found.data), found.tail) == (256, b"")


@pytest.mark.parametrize(
    "data",
    [
        frame(11, record()),  # its layout was not told
        LAYOUTS + frame(13, b""),
        LAYOUTS + frame_header(11, MAX_FRAME_BYTES + 1),
        LAYOUTS + frame(11, record()[:-1]),
        frame(0, b"[]"),
        frame(0, b'{"say": "layouts", "layouts": [{}]}'),
        frame(0, b'{"say": "layouts", "layouts": 3}'),
        frame(0, b'{"say": "losses", "streams": 3}'),
    ],
)
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        read(data, 1 << 20)


def test_a_layout_without_a_member_is_refused():
    other = struct_layout("tcp_io_event").in_ring(stream=11, name="plain")
    with pytest.raises(ValueError, match="tcp_io_event has no member"):
        list(records(other, bytes(other.stride)))


@pytest.mark.fuzz
@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_refused(data):
    with contextlib.suppress(ValueError):
        read(LAYOUTS + data, 97)
