# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.cli.route_words import host_and_port, position
from netdiag.errors import UsageError


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("api.example.com", ("api.example.com", 443)),
        ("api.example.com:8443", ("api.example.com", 8443)),
        ("https://api.example.com/v1/chat", ("api.example.com", 443)),
        ("http://api.example.com", ("api.example.com", 80)),
        ("2001:db8::1", ("2001:db8::1", 443)),
        ("[2001:db8::1]:8443", ("2001:db8::1", 8443)),
        ("[2001:db8::1]", ("2001:db8::1", 443)),
        ("user@api.example.com", ("api.example.com", 443)),
    ],
)
def test_hosts(word, expected):
    assert host_and_port(word, None) == expected


def test_a_port_in_the_word_is_stronger():
    assert host_and_port("x:1", 2) == ("x", 1)
    assert host_and_port("x", 2) == ("x", 2)


@pytest.mark.parametrize("word", ["", "x:", "x:0", "x:70000", "x:y", "a b", "x\x1b", "a" * 254])
def test_no_hosts(word):
    with pytest.raises(UsageError):
        host_and_port(word, None)


def test_positions():
    assert position("52.5,13.4") == (52.5, 13.4)
    assert position(None) == (None, None)
    for text in ("52.5", "x,y", "91,0", "0,181", "nan,nan"):
        with pytest.raises(UsageError):
            position(text)
