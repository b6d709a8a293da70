# SPDX-License-Identifier: Apache-2.0
"""Exchanges become records: texts by number, numbers within their width, more than one run of them."""

from __future__ import annotations

from netdiag.capture.exchanges import Exchanges
from netdiag.decode.http.conversation import Conversation
from netdiag.decode.http.exchange import Chunk, ChunkKind, Exchange, Protocol, Usage
from netdiag.decode.piece import Piece


def exchange(number: int, **more: object) -> Exchange:
    return Exchange(number=number, protocol=Protocol.HTTP11, began_ns=number, method="GET", host="a", **more)  # type: ignore[arg-type]


def test_texts_are_numbered_once_and_in_order():
    told = Exchanges()
    one, two = told.conversation(7), told.conversation(8, how="decrypted")
    told.take(one, [exchange(1, path="/x", headers={"retry-after": "1"}), exchange(2, path="/y")])
    told.take(two, [exchange(1, path="/x")])
    harvest = told.harvest()
    values = [value for fact in harvest.facts if fact["kind"] == "strings" for value in fact["values"]]
    assert values == ["GET", "a", "/x", '{"retry-after": "1"}', "/y"]
    records = harvest.records["http_request"]
    assert records["path"].tolist() == [3, 5, 3]
    assert records["headers"].tolist() == [4, 0, 0]
    assert records["cookie"].tolist() == [7, 7, 8]
    assert records["conversation"].tolist() == [1, 1, 2]


def test_unknown_numbers_are_zero_and_known_ones_one_more():
    told = Exchanges()
    number = told.conversation(7)
    told.take(number, [exchange(1, usage=Usage(input=0, output=1 << 40))])
    record = told.harvest().records["http_request"][0]
    assert [int(record[f"{name}_tokens"]) for name in ("input", "cached", "output", "reasoning")] == [
        1,
        0,
        0xFFFFFFFF,
        0,
    ]


def test_more_than_one_run_of_records_is_one_array():
    told = Exchanges()
    number = told.conversation(7)
    told.take(number, (exchange(each) for each in range(1, 2501)))
    chunk = Chunk(exchange=1, at_ns=5, offset=0, length=10, kind=ChunkKind.CONTENT, events=1 << 20, tokens=1 << 20)
    told.take(number, [chunk] * 1024)
    harvest = told.harvest()
    assert harvest.records["http_request"]["number"].tolist() == list(range(1, 2501))
    assert harvest.records["http_chunk"]["events"].tolist() == [0xFFFF] * 1024


def test_nothing_told_is_nothing():
    harvest = Exchanges().harvest()
    assert (harvest.records, harvest.layouts, list(harvest.facts)) == ({}, {}, [])


def test_why_conversations_were_not_followed_is_a_fact() -> None:
    told = Exchanges()
    for _ in range(2):
        number, said = told.conversation(7), Conversation(role="client")
        said.feed(Piece(at_ns=1, direction="send", offset=0, length=18, data=b"GET / HTTP/1.1\r\n\r\n"))
        said.feed(Piece(at_ns=2, direction="receive", offset=9, length=3, data=b"abc"))
        told.over(number, said)
    whole = Conversation(role="client")
    whole.feed(Piece(at_ns=1, direction="send", offset=0, length=18, data=b"GET / HTTP/1.1\r\n\r\n"))
    told.over(told.conversation(8), whole)
    facts = [fact for fact in told.harvest().facts if fact["kind"] == "plaintext"]
    assert facts == [{"kind": "plaintext", "not_followed": {"bytes that frame messages were not seen": 2}}]
