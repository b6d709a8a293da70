# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import sys
import time

import pytest

from netdiag.cli.progress import Counter, Reading


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is set, in seconds."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def shown(monkeypatch, clock, seconds, stream=None):
    """Return what a counter writes that is called after these seconds."""
    out = stream or Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    with Counter() as counter:
        for number, second in enumerate(seconds):
            clock[0] = 100.0 + second
            counter("routes", number, 1_000)
    return out.getvalue()


def test_what_is_quick_shows_nothing(monkeypatch, clock):
    assert shown(monkeypatch, clock, [0.0, 0.5, 0.99]) == ""


def test_what_takes_longer_is_counted_and_the_line_is_taken_away(monkeypatch, clock):
    text = shown(monkeypatch, clock, [0.5, 1.5])
    assert text == "\r\x1b[Knetdiag: routes 1 of 1,000\r\x1b[K"


def test_it_is_not_written_more_often_than_it_can_be_read(monkeypatch, clock):
    assert shown(monkeypatch, clock, [1.5, 1.6, 1.65, 1.75]).count("routes") == 2


def test_where_nobody_looks_nothing_is_written(monkeypatch, clock):
    assert shown(monkeypatch, clock, [2.0, 3.0], io.StringIO()) == ""


def test_the_line_is_taken_away_after_an_error_as_well(monkeypatch, clock):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    with pytest.raises(KeyError), Counter() as counter:  # noqa: PT012 - the block is what is tested
        clock[0] += 2.0
        counter("routes", 1, 2)
        raise KeyError
    assert out.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize(("size", "says"), [(8_000_000, " 50 %"), (None, "4 MB")])
def test_how_much_of_a_file_was_read(monkeypatch, clock, size, says):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    with pytest.raises(KeyError), Reading("/some/slow\x1b[31m.pcap") as reading:  # noqa: PT012 - as above
        reading(1, size)
        clock[0] += 2.0
        reading(4_000_000, size)
        raise KeyError
    assert out.getvalue() == f"\r\x1b[Knetdiag: slow\\x1b[31m.pcap: {says}, 2 MB/s\r\x1b[K"
