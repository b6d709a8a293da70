# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.decode.http.exchange import Chunk, ChunkKind, Exchange, Protocol, Usage
from netdiag.decode.http.rows import Strings, chunk_row, request_row
from netdiag.testing import struct_layout


def test_rows_have_the_members_of_the_structs():
    one = Exchange(number=3, protocol=Protocol.HTTP2, method="GET", usage=Usage(input=0), headers={"retry-after": "1"})
    strings = Strings()
    row = request_row(one, strings, conversation=7, cookie=9, at_ns=11, server=True, pid=5, tid=6)
    assert set(row) == {field.name for field in struct_layout("http_request_event").fields}
    assert (row["number"], row["protocol"], row["input_tokens"], row["output_tokens"]) == (3, 3, 1, 0)
    assert (row["server"], row["tgid"], row["conversation"], row["cookie"], row["time"]) == (1, 5, 7, 9, 11)
    assert strings.take() == (1, ["GET", '{"retry-after":"1"}'])
    chunk = Chunk(exchange=3, at_ns=1, offset=2, length=4, kind=ChunkKind.CONTENT, events=1)
    members = {field.name for field in struct_layout("http_chunk_event").fields} - {"reserved"}
    assert set(chunk_row(chunk, conversation=7)) == members


def test_texts_are_numbered_once():
    strings = Strings()
    assert [strings.number(text) for text in ("a", "b", "a", None, "x" * 5000)] == [1, 2, 1, 0, 0]
    assert strings.take() == (1, ["a", "b"])
    assert strings.number("c") == 3
    assert strings.take() == (3, ["c"])
    assert strings.of_headers({}) == 0


def test_memory_of_texts_is_bounded():
    strings = Strings()
    for number in range(10_000):
        strings.number(f"text {number}")
    assert len(strings._numbers) <= 4096
    assert strings.number("text 0") == 10_001  # a second number, no wrong one
