# SPDX-License-Identifier: Apache-2.0
"""Where a handshake ends and data begins, from record headers alone."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables.flights import Flights
from netdiag.testing import connection, tables

HELLO13 = [(">", 22, 512, 1), ("<", 22, 122, 2), ("<", 20, 1, 1), ("<", 23, 1200, 0), (">", 20, 1, 1), (">", 23, 69, 0)]
HELLO12 = [
    (">", 22, 512, 1), ("<", 22, 90, 2), ("<", 22, 900, 11), ("<", 22, 4, 14), (">", 22, 37, 16), (">", 20, 1, 1),
    (">", 22, 40, 0), ("<", 20, 1, 1), ("<", 22, 40, 0),
]  # fmt: skip
DATA = [(">", 23, 300, 0), ("<", 23, 900, 0)]


def flights(records, role="client"):
    sent = ">" if role == "client" else "<"
    rows = [
        {
            "connection": 0, "at_ns": float(at), "direction": "send" if side == sent else "receive", "type": kind,
            "length": length, "first": first, "version": 3,
        }
        for at, (side, kind, length, first) in enumerate(records)
    ]  # fmt: skip
    made = tables(connections=[connection(role=role)], records=rows)
    return Flights(made.connections, made.records)


@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize(("hello", "new", "finished"), [(HELLO13, True, 5), (HELLO12, False, 6)])
def test_the_end_of_the_handshake(role, hello, new, finished):
    made = flights([*hello, *DATA], role)
    assert (made.new.tolist(), made.old.tolist()) == ([new], [not new])
    assert made.hello.tolist() == [0]
    assert made.finished.tolist() == [finished]
    assert np.flatnonzero(made.data).tolist() == [len(hello), len(hello) + 1]
    assert made.plain[made.data].tolist() == ([283, 883] if new else [276, 876])


def test_a_certificate_of_the_client_comes_before_its_finished():
    made = flights([*HELLO13[:5], (">", 23, 1500, 0), (">", 23, 281, 0), (">", 23, 69, 0), *DATA])
    assert made.finished.tolist() == [7]
    assert np.flatnonzero(made.data).tolist() == [8, 9]


def test_a_finished_in_one_record_with_more_is_the_first_of_the_client():
    made = flights([*HELLO13[:5], (">", 23, 1900, 0), *DATA])
    assert made.finished.tolist() == [5]


def test_an_alert_instead_of_a_finished_ends_nothing_well():
    made = flights([*HELLO13[:5], (">", 23, 19, 0)])
    assert not made.seen(made.finished).any()
    assert not made.data.any()


def test_a_handshake_under_way_has_no_data():
    made = flights(HELLO13[:4])
    assert not made.data.any()
    assert not made.seen(made.finished).any()
    assert np.isnan(made.time_of(made.finished)).all()


def test_closing_alerts_are_no_data():
    made = flights([*HELLO13, *DATA, (">", 23, 19, 0), ("<", 23, 19, 0)])
    assert np.flatnonzero(made.data).tolist() == [6, 7]
    assert flights([*HELLO13, *DATA, (">", 23, 19, 0), (">", 23, 300, 0)]).data[8]


def test_from_the_middle_all_is_data():
    made = flights(DATA)
    assert made.data.all()
    assert not (made.new | made.old | made.seen(made.hello)).any()


def test_no_records_at_all():
    made = flights([])
    assert len(made.data) == 0
    assert np.isnan(made.time_of(made.hello)).all()


def test_early_data_is_data():
    made = flights([HELLO13[0], (">", 23, 317, 0), *HELLO13[1:], ("<", 23, 900, 0)])
    assert np.flatnonzero(made.data).tolist() == [1, 7]
    assert made.finished.tolist() == [6]


def times(records, closing, gap=10.0):
    """Return when each side sent a closing alert, in the numbers of records; they are `gap` ms apart."""
    made = flights(records)
    made.time = made.time * gap * 1e6
    ours, theirs = made.closing_times(np.array([closing * gap * 1e6]))
    return (ours / gap / 1e6).tolist()[0], (theirs / gap / 1e6).tolist()[0]


@pytest.mark.parametrize(("hello", "alert"), [(HELLO13, (">", 23, 19, 0)), (HELLO12, (">", 21, 26, 0))])
def test_when_a_side_said_that_it_closes(hello, alert):
    ours, theirs = times([*hello, *DATA, alert], closing=99)
    assert ours == len(hello) + 2
    assert np.isnan(theirs)
    peers = ("<", *alert[1:])
    ours, theirs = times([*hello, *DATA, peers], closing=99)
    assert np.isnan(ours)
    assert theirs == len(hello) + 2


@pytest.mark.parametrize(
    ("tail", "closing", "gap", "known"),
    [
        ([("<", 23, 19, 0)], 9, 0.1, True),
        ([("<", 23, 19, 0)], 9999999, 0.1, False),
        ([("<", 23, 19, 0), ("<", 23, 40, 0), ("<", 23, 19, 0)], 12, 10, False),
        ([("<", 23, 19, 0), ("<", 23, 40, 0)], 12, 10, False),
        ([("<", 23, 24, 0)], 12, 10, False),
    ],
    ids=["a FIN at once", "the end of the data, and nothing for long", "a habit", "not the last", "another size"],
)
def test_data_of_two_bytes_is_no_closing_alert(tail, closing, gap, known):
    _, theirs = times([*HELLO13, *DATA, *tail], closing, gap)
    assert np.isnan(theirs) != known
