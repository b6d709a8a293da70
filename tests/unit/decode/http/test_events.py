# SPDX-License-Identifier: Apache-2.0
"""Events of streams, however they are cut; a gap loses events and invents none."""

from __future__ import annotations

import random

import pytest

from netdiag.decode.http.events import Events

STREAM = (
    b"\xef\xbb\xbfdata: one\n\n: comment\n\nevent: ping\ndata: {}\n\nid: 7\ndata: two\ndata: lines\n\r\n"
    b"data:three\r\n\r\nretry: 5\n\ndata: four\r\rdata: five\n\n"
)
WANT = [
    (b"", b"one"),
    (b"", b""),
    (b"ping", b"{}"),
    (b"", b"two\nlines"),
    (b"", b"three"),
    (b"", b"four"),
    (b"", b"five"),
]


def split(parts, **kind):
    events = Events(**kind)
    return [event for part in parts for event in events.feed(part)]


@pytest.mark.parametrize("seed", range(20))
def test_events_are_found_however_they_are_cut(seed):
    draw, parts, at = random.Random(seed), [], 0
    while at < len(STREAM):
        step = draw.choice((1, 2, 3, 10, 40))
        parts.append(STREAM[at : at + step])
        at += step
    found = split(parts)
    assert [(event.name, event.data) for event in found] == WANT
    assert [event.comment for event in found] == [False, True, *[False] * 5]


def test_an_event_ends_where_its_blank_line_does():
    assert [event.end for event in split([b"data: a\n\ndata: b\n\n"])] == [9, 18]


def test_lines_are_events_of_json():
    found = split([b'{"a":1}\n{"b"', b':2}\r\n\n[{"c":3},\n'], by_line=True)
    assert [event.data for event in found] == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


def test_the_last_line_needs_no_end():
    events = Events(by_line=True)
    assert list(events.feed(b'{"a":1}')) == []
    assert [event.data for event in events.end()] == [b'{"a":1}']


def test_a_gap_gives_up_the_event_that_it_cuts():
    events = Events()
    assert [event.data for event in events.feed(b"data: a\n\ndata: half")] == [b"a"]
    assert [event.data for event in events.gap()] == [b"half"]
    assert [event.data for event in events.feed(b" of one\n\ndata: b\n\n")] == [b"b"]
    assert list(events.gap()) == []
    assert [event.data for event in events.feed(b"data: c\n\n", new_piece=True)] == [b"c"]


def test_an_event_without_end_is_bounded():
    events = Events()
    for _ in range(100):
        assert list(events.feed(b"data: " + b"x" * 10_000)) == []
    (event,) = events.feed(b"\n\n")
    assert len(event.data) <= 16 * 1024
