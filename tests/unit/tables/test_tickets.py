# SPDX-License-Identifier: Apache-2.0
"""Session tickets are no answers, and answers are no session tickets."""

from __future__ import annotations

import pytest

from netdiag.tables.flights import Flights
from netdiag.tables.tickets import tickets
from netdiag.testing import connection, tables

HELLO = [(0, ">", 22, 512), (1, "<", 22, 122), (1, "<", 23, 1200), (2, ">", 23, 69)]


def found(*conversations, rtt_ms=1.0, role="client", start=HELLO):
    """Return the instants (ms) of the tickets of each connection."""
    sent, rows = ">" if role == "client" else "<", []
    for number, records in enumerate(conversations):
        rows += [
            {
                "connection": number, "at_ns": at * 1e6, "direction": "send" if side == sent else "receive",
                "type": kind, "length": length, "first": {0: 1, 1: 2}.get(at, 0) if kind == 22 else 0, "version": 3,
            }
            for at, side, kind, length in [*start, *records]
        ]  # fmt: skip
    ends = [connection(role=role, min_rtt_ms=rtt_ms) for _ in conversations]
    made = tables(connections=ends, records=rows)
    mask = tickets(made.connections, Flights(made.connections, made.records))
    chosen = made.records[mask]
    return [(chosen["at_ns"][chosen["connection"] == row] / 1e6).tolist() for row in range(len(conversations))]


ANSWER = (300, "<", 23, 870)


@pytest.mark.parametrize("role", ["client", "server"])
def test_what_comes_before_any_request(role):
    assert found([(3, "<", 23, 250), (3, "<", 23, 250), (9, ">", 23, 300), ANSWER], role=role) == [[3, 3]]


def test_what_comes_sooner_than_an_answer_can():
    assert found([(3, ">", 23, 300), (22, "<", 23, 250), (22, "<", 23, 250), ANSWER], rtt_ms=20) == [[22, 22]]


def test_several_of_one_size_with_more_to_come():
    assert found([(3, ">", 23, 300), (90, "<", 23, 250), (91, "<", 23, 250), ANSWER]) == [[90, 91]]


def test_one_that_comes_at_once():
    assert found([(2.1, ">", 23, 300), (3.2, "<", 23, 250), ANSWER]) == [[3.2]]


def test_one_of_a_size_that_was_certain_elsewhere():
    sure = [(3, "<", 23, 250), (9, ">", 23, 300), ANSWER]
    assert found(sure, [(3, ">", 23, 300), (90, "<", 23, 250), ANSWER]) == [[3], [90]]


@pytest.mark.parametrize(
    "records",
    [
        [(2.1, ">", 23, 300), (3.2, "<", 23, 250)],
        [(2.1, ">", 23, 300), (40, "<", 23, 250), ANSWER],
        [(2.1, ">", 23, 300), (40, "<", 23, 250), (40, "<", 23, 250)],
        [(2.1, ">", 23, 300), (3.2, "<", 23, 900), ANSWER],
        [(2.1, ">", 23, 300), (3.2, "<", 23, 250), (5, "<", 23, 90), (9, ">", 23, 300), (10, "<", 23, 255), ANSWER],
    ],
    ids=["nothing else", "late and alone", "the whole answer", "too large", "later answers begin alike"],
)
def test_an_answer_is_no_ticket(records):
    assert found(records) == [[]]


def test_no_records_no_tickets():
    made = tables(connections=[connection()])
    assert len(tickets(made.connections, Flights(made.connections, made.records))) == 0


def test_a_ticket_that_holds_the_clients_certificate():
    records = [(2, ">", 23, 800), (2.1, ">", 23, 281), (2.2, ">", 23, 69), (2.3, ">", 23, 300)]
    late = [(3.5, "<", 23, 1034), (3.6, "<", 23, 1034), ANSWER]
    hello = [record for record in HELLO if record[0] < 2]
    assert found(records + late, start=hello) == [[3.5, 3.6]]
    assert found(records[2:] + late, start=hello) == [[]]


def test_a_ticket_that_waits_for_an_acknowledgement():
    assert found([(2.1, ">", 23, 300), (3.5, "<", 23, 250), (44, "<", 23, 250), ANSWER]) == [[3.5, 44]]
    assert found([(2.1, ">", 23, 300), (103.5, "<", 23, 250), (144, "<", 23, 250), ANSWER]) == [[]]
