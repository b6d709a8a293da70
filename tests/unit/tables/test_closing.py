# SPDX-License-Identifier: Apache-2.0
"""Who closed first: FIN, RST, or the closing alert before them; and how long nothing had been said."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.testing import START_NS, RecordingBuilder

HELLO = [("send", 1, 517), ("receive", 2, 2100), ("send", 3, 80), ("send", 4.5, 300)]
ANSWER = [*HELLO, ("receive", 50, 900)]


def closed(calls, by, at, **members):
    tables = build(RecordingBuilder().connection(calls, closed=(by, at), **members).recording())
    row = tables.connections.iloc[0]
    return tables, (row["closed_by"], row["closing_ns"] / 1e6, row["idle_before_close_ms"])


def test_without_an_alert_the_first_fin_or_reset_counts():
    _, (by, at, idle) = closed(ANSWER, "remote", 3050, close="fin")
    assert (by, at) == ("remote", 3050)
    assert idle == pytest.approx(3000, abs=0.1)


@pytest.mark.parametrize("size", [23, 24, 31])
@pytest.mark.parametrize(
    ("fin_by", "close"), [("local", "fin"), ("remote", "fin"), ("remote", "rst"), ("local", "rst")]
)
def test_our_lone_alert_before_any_fin_or_reset_is_the_close(size, fin_by, close):
    tables, (by, at, idle) = closed([*ANSWER, ("send", 2050, size)], fin_by, 2050.4, close=close)
    assert (by, at) == ("local", 2050)
    assert idle == pytest.approx(2000, abs=0.1)
    assert tables.bursts["close_notify"].tolist() == [False] * 5 + [True]
    assert tables.connections["last_sent_ns"].tolist() == [4.5e6]
    assert len(tables.turns) == 2


def test_the_peers_alert_that_we_read_is_the_close():
    calls = [*ANSWER, ("receive", 1050, 24), ("send", 1050.2, 24)]
    tables, (by, at, idle) = closed(calls, "local", 1050.3)
    assert (by, at) == ("remote", pytest.approx(1049.99))
    assert idle == pytest.approx(1000, abs=0.1)
    assert tables.bursts["close_notify"].tolist() == [False] * 5 + [True] * 2


def test_the_peers_alert_that_lies_unread_is_the_close():
    arrived = {"last_received": START_NS + 4_050_000_000, "unread": 24, "flags": 32}
    _, (by, at, idle) = closed(ANSWER, "local", 9000, close="rst", **arrived)
    assert (by, at) == ("remote", 4050)
    assert idle == pytest.approx(4000, abs=0.1)


def test_our_alert_after_the_peers_fin_changes_nothing():
    _, (by, at, idle) = closed([*ANSWER, ("send", 8000, 24)], "remote", 5050)
    assert (by, at) == ("remote", 5050)
    assert idle == pytest.approx(5000, abs=0.1)


def test_a_request_after_the_peers_fin_is_no_alert_and_no_activity_before_it():
    tables, (by, _, idle) = closed([*ANSWER, ("send", 8000, 300)], "remote", 5050)
    assert by == "remote"
    assert idle == pytest.approx(5000, abs=0.1)
    assert not tables.bursts["close_notify"].any()


@pytest.mark.parametrize(
    "calls",
    [
        [("send", 1, 24)],
        [("send", 1, 300), ("send", 50, 24)],
        [("send", 1, 60), ("receive", 2, 900), ("send", 50, 24)],
        [("send", 1, 300), ("receive", 2, 24), ("send", 10, 24), ("receive", 11, 24), ("send", 50, 24)],
        [*ANSWER, ("send", 60, 24), ("receive", 90, 700)],
        [*ANSWER, ("send", 60, 25)],
    ],
    ids=["alone", "no answer", "no hello", "a habit", "not last", "another size"],
)
def test_data_of_that_size_is_data(calls):
    tables, (by, at, _) = closed(calls, "remote", 100)
    assert not tables.bursts["close_notify"].any() or len(calls) == 2
    assert by == "remote"
    assert at == 100


def test_data_after_our_fin_is_no_idleness():
    _, (by, _, idle) = closed([("send", 1, 300), ("receive", 80, 900)], "local", 5)
    assert by == "local"
    assert idle == pytest.approx(4, abs=0.1)


def test_a_connection_that_carried_nothing_was_idle_since_it_was_made():
    _, (_, _, idle) = closed([], "remote", 1000.1)
    assert idle == pytest.approx(1000)


def test_what_gave_up_was_closed_by_nobody():
    tables = build(
        RecordingBuilder().connection(ANSWER, closed=("local", 90), close="timeout", closed_by=0).recording()
    )
    row = tables.connections.iloc[0]
    assert (row["closed_by"], row["close"]) == (None, "timeout")
    assert np.isnan(row["idle_before_close_ms"])


def test_an_open_connection_has_no_close():
    row = build(RecordingBuilder().connection([*ANSWER, ("send", 60, 24)]).recording()).connections.iloc[0]
    assert (row["closed_by"], row["close"]) == (None, "open")
    assert np.isnan(row["closing_ns"])


def test_without_bursts_the_kernels_word_stands():
    builder = RecordingBuilder().connection(
        [], closed=("remote", 3000), bytes_sent=9, last_received=START_NS + 1_000_000
    )
    row = build(builder.recording()).connections.iloc[0]
    assert (row["closed_by"], row["idle_before_close_ms"]) == ("remote", 2999)


def test_an_alert_that_the_wire_showed_is_the_close():
    builder = RecordingBuilder().connection(ANSWER, closed=("local", 2050.4), dport=443)
    for at, side, kind, length, first in (
        (1, "send", 22, 512, 1), (2, "receive", 22, 122, 2), (2, "receive", 23, 1900, 0), (3, "send", 23, 69, 0),
        (4.5, "send", 23, 295, 0), (50, "receive", 23, 895, 0), (2050, "receive", 23, 19, 0),
    ):  # fmt: skip
        builder.wire(1, side, at, kind, length, first)
    row = build(builder.recording()).connections.iloc[0]
    assert (row["closed_by"], row["closing_ns"]) == ("remote", 2050e6)
    assert row["idle_before_close_ms"] == pytest.approx(2000, abs=0.1)


SHORT_BODY = [("send", 1, 240), ("receive", 21, 70), ("receive", 23, 23)]


@pytest.mark.parametrize("spoken", [None, 2])
def test_the_end_of_a_plain_answer_is_no_alert(spoken):
    builder = RecordingBuilder().connection(SHORT_BODY, closed=("local", 24), unread=24)
    if spoken:
        builder.wire(1, "send", 0, 0, first=spoken)
    made = build(builder.recording())
    assert made.connections["closed_by"].tolist() == ["local"]
    assert not made.bursts["close_notify"].any()


def test_the_end_of_an_encrypted_answer_is_no_alert():
    calls = [*HELLO, ("receive", 50, 900), ("receive", 52, 24)]
    builder = RecordingBuilder().connection(calls, closed=("local", 9000), dport=443)
    for at, side, kind, length, first in (
        (1, "send", 22, 512, 1), (2, "receive", 22, 122, 2), (2, "receive", 23, 1900, 0), (3, "send", 23, 69, 0),
        (4.5, "send", 23, 295, 0), (50, "receive", 23, 895, 0), (52, "receive", 23, 19, 0),
    ):  # fmt: skip
        builder.wire(1, side, at, kind, length, first)
    made = build(builder.recording())
    assert made.connections["closed_by"].tolist() == ["local"]
    assert not made.bursts["close_notify"].any()


def test_an_answer_in_the_packet_that_closes_leaves_no_idle_time():
    """The kernel notes the close when the packet passes, the data some microseconds later, when TCP queues it."""
    _, (by, at, idle) = closed([*HELLO, ("receive", 50.04, 900)], "remote", 50)
    assert (by, at, idle) == ("remote", 50, 0.0)
