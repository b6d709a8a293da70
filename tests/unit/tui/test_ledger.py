# SPDX-License-Identifier: Apache-2.0
"""The quick count says what the tables say, where both can."""

from __future__ import annotations

import numpy as np

from netdiag.tables.codes import TcpFlags
from netdiag.testing import START_NS, RecordingBuilder
from netdiag.tui.ledger import Ledger


def ns(ms: float) -> int:
    return START_NS + int(ms * 1e6)


def builder(flags: int = 0) -> RecordingBuilder:
    made = RecordingBuilder().process(100)
    made.fact("strings", first=1, values=["GET", "api.example.com", "/v1"])
    made.connection([("send", 10, 100), ("receive", 30, 900)], opened=5, closed=("local", 40), flags=flags)
    for number, (began, status) in enumerate(((10, 200), (20, 503)), 1):
        made.record("http_request", time=ns(began + 9), conversation=1, cookie=1, began=ns(began), sent=ns(began + 1),
                    first_byte=ns(began + 5), ended=ns(began + 9), number=number, method=1, host=2, path=3, tgid=100,
                    status=status, result=1, request_bytes=100)  # fmt: skip
    return made.fact("loss", probe="tcp", seen=9, lost=2)


def counted() -> Ledger:
    ledger = Ledger()
    ledger.add(builder().recording(end_at=100))
    return ledger


def test_requests_have_their_times_and_names():
    calls = counted().calls()
    assert calls.wait_ms.tolist() == [4.0, 4.0]
    assert calls.total_ms.tolist() == [9.0, 9.0]
    assert calls.failed.tolist() == [0.0, 1.0]
    assert calls.reused.tolist() == [0.0, 1.0]
    assert set(calls.host) == {"api.example.com:8080"}
    assert set(calls.label) == {"GET /v1"}
    assert np.isnan(calls.retried).all()
    assert np.isnan(calls.first_token_ms).all()


def test_the_first_request_seen_on_an_older_connection_may_not_be_its_first():
    ledger = Ledger()
    ledger.add(builder(TcpFlags.PREEXISTING).recording(end_at=100))
    assert np.array_equal(ledger.calls().reused, [np.nan, 1.0], equal_nan=True)


def test_a_connection_counts_once_however_many_records_it_has():
    ledger = Ledger()
    first = RecordingBuilder().connection([], opened=5)
    last = RecordingBuilder().connection([], opened=5, closed=("local", 40))
    ledger.add(first.recording(end=None))
    assert np.isnan(ledger.ends().ended_ns).all()
    ledger.add(last.recording(end=None))
    assert len(ledger.ends()) == 1
    assert not np.isnan(ledger.ends().ended_ns).any()


def test_losses_are_the_last_word_and_unknown_without():
    assert counted().lost == 2
    assert Ledger().lost is None


def test_servers_count_only_where_no_client_was_traced():
    ledger = Ledger()
    ledger.add(RecordingBuilder().connection([]).connection([], role=2).recording())
    assert len(ledger.ends()) == 1
    ledger = Ledger()
    ledger.add(RecordingBuilder().connection([], role=2).recording())
    assert len(ledger.ends()) == 1


def test_nothing_is_nothing():
    assert len(Ledger().calls()) == 0
    assert len(Ledger().ends()) == 0


def test_requests_come_before_their_connection_and_out_of_turn():
    made = RecordingBuilder().fact("strings", first=1, values=["GET", "api.example.com"])
    for began, ended in ((20, 21), (10, 30)):
        made.record("http_request", time=ns(ended), conversation=1, cookie=1, began=ns(began), sent=ns(began),
                    first_byte=ns(ended), ended=ns(ended), number=1, method=1, host=2, tgid=100, status=200, result=1,
                    )  # fmt: skip
    ledger = Ledger()
    ledger.add(made.connection([("send", 10, 100)], opened=5).recording(end_at=100))
    assert ledger.calls().began_ns.tolist() == [10e6, 20e6]
    assert set(ledger.calls().host) == set(ledger.ends().host) == {"api.example.com:8080"}
