# SPDX-License-Identifier: Apache-2.0
"""Layouts and JSON blocks that a file may hold are checked before anything relies on them."""

from __future__ import annotations

import json

import pytest

from netdiag.recording.format import (
    BLOCK_HEADER,
    FILE_HEADER,
    MAX_JSON_BYTES,
    BrokenBlockError,
    Field,
    FieldKind,
    StreamLayout,
    dump_json,
    parse_json,
)


def field(**members):
    return {"name": "a", "type": "__u32", "offset": 0, "size": 4, "kind": "uint"} | members


def layout(**members):
    default = {"stream": 1, "name": "tcp", "struct": "tcp_event", "size": 8, "offset": 8, "stride": 16}
    return default | {"fields": [field()]} | members


def test_headers_have_the_documented_sizes():
    assert (FILE_HEADER.size, BLOCK_HEADER.size) == (16, 12)


def test_a_ring_holds_records_rounded_up_behind_its_header():
    member = Field(name="a", type="__u32", offset=0, size=4, kind=FieldKind.UINT)
    made = StreamLayout.of_ring(stream=3, name="x", struct="x_event", size=12, fields=(member,))
    assert (made.offset, made.stride) == (8, 24)
    assert StreamLayout.from_json(made.to_json()) == made
    assert StreamLayout.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (layout(fields=[]), "fields"),
        (layout(fields={}), "fields"),
        (layout(fields=[7]), "object"),
        (layout(fields=[field(name=f"f{n}", offset=n, size=1) for n in range(600)]), "512"),
        (layout(stream=70000), "stream"),
        (layout(stream=True), "stream"),
        (layout(name="../../etc"), "name"),
        (layout(name="x" * 65), "name"),
        (layout(stride=12), "stride"),
        (layout(stride=1 << 40), "stride"),
        (layout(size=0), "size"),
        (layout(fields=[field(offset=-1)]), "offset"),
        (layout(fields=[field(offset=6)]), "ends after"),
        (layout(fields=[field(size=3)]), "number of 3 bytes"),
        (layout(fields=[field(kind="float")]), "kind"),
        (layout(fields=[field(kind=["uint"])]), "kind"),
        (layout(fields=[field(type=None)]), "type"),
        (layout(fields=[field(), field(name="b", offset=2)]), "overlaps"),
        (layout(fields=[field(), field(offset=4)]), "twice"),
    ],
)
def test_a_hostile_layout_is_refused(broken, word):
    with pytest.raises(BrokenBlockError, match=word):
        StreamLayout.from_json(broken)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"7",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": [-1.5E400]}',
        b"\xff\xfe",
        b'{"a":' * 5000,
        b'{"a":' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"a": 1' + b"0" * 5000 + b"}",
        b" " * (MAX_JSON_BYTES + 1),
    ],
)
def test_json_that_netdiag_did_not_write_is_refused(payload):
    with pytest.raises(ValueError):  # noqa: PT011 - json, unicode and own errors share this type alone
        parse_json(payload)


def test_json_survives_and_brackets_in_text_do_no_harm():
    value = {"a": "[" * 20, "b": [1, None, {"c": "é"}]}
    assert parse_json(dump_json(value)) == value


def test_nothing_is_written_that_no_reader_takes():
    with pytest.raises(ValueError, match="fit a block"):
        dump_json({"a": "x" * MAX_JSON_BYTES})
    with pytest.raises(ValueError, match="JSON"):
        dump_json({"a": float("nan")})
