# SPDX-License-Identifier: Apache-2.0
"""JSON that is whole, cut, or no JSON: leaves with their paths, and never what stands in a text taken for a key."""

from __future__ import annotations

import json

import pytest

from netdiag.decode.http.scan import leaves, top_of_tail, whole_number

BODY = {"messages": [{"role": "user", "content": 'say "model": "no" and {"stream": true}'}], "model": "gpt", "n": 1}


def texts(data):
    return [(path.decode(), raw) for path, raw, is_text in leaves(data) if is_text]


def test_paths_leave_out_lists():
    found = list(leaves(b'{"a":{"b":[1,{"c":"x\\"y"}],"d":true},"e":null}'))
    assert found == [
        (b"", b"{", False), (b"a", b"{", False), (b"a.b", b"[", False), (b"a.b", b"1", False), (b"a.b", b"{", False),
        (b"a.b.c", b'x\\"y', True), (b"a.d", b"true", False), (b"e", b"null", False),
    ]  # fmt: skip


def test_what_stands_in_a_text_is_no_key():
    found = texts(json.dumps(BODY).encode())
    assert ("model", b"gpt") in found
    assert [path for path, _ in found] == ["messages.role", "messages.content", "model"]


@pytest.mark.parametrize("cut", range(0, 120, 3))
def test_a_cut_text_tells_what_came_before(cut):
    whole = json.dumps(BODY).encode()
    found, told = texts(whole), texts(whole[:cut])
    assert told[:-1] == found[: len(told[:-1])]
    assert not told or found[len(told) - 1][1].startswith(told[-1][1])


@pytest.mark.parametrize("back", range(2, 120, 3))
def test_the_tail_tells_only_what_is_at_the_top(back):
    tail = json.dumps(BODY).encode()[-back:]
    found = dict(texts(top_of_tail(tail)))
    assert set(found) <= {"model", "messages.role", "messages.content"}
    assert found.get("model", b"gpt") == b"gpt"


def test_a_tail_that_ends_elsewhere_tells_nothing():
    assert top_of_tail(b'"model":"x"}, {"a":1') == b""
    assert top_of_tail(b'{"model":"x"}}') == b""
    assert top_of_tail(b'... "model":"x"}') == b'{"model":"x"}'


def test_depth_and_length_are_bounded():
    assert len(list(leaves(b"[" * 10_000))) <= 33
    assert len(list(leaves(b"1," * 100_000))) <= 20_001
    assert max(len(path) for path, _, _ in leaves(b'{"' + b"k" * 500 + b'":{"a":{"b":{"c":1}}}}')) < 1200


def test_numbers():
    assert [whole_number(raw) for raw in (b"0", b"12", b"-1", b"1.5", b"", b"9" * 30)] == [
        0,
        12,
        None,
        None,
        None,
        None,
    ]
