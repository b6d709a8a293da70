# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netdiag.cli.route_words import LAST_PORT, host_and_port, position
from netdiag.errors import UsageError


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("api.example.com", ("api.example.com", 443)),
        ("api.example.com:8443", ("api.example.com", 8443)),
        ("https://api.example.com/v1/chat", ("api.example.com", 443)),
        ("https://api.example.com?key=s", ("api.example.com", 443)),
        ("http://api.example.com", ("api.example.com", 80)),
        ("HTTP://api.example.com#x", ("api.example.com", 80)),
        ("api.example.com.", ("api.example.com.", 443)),
        ("under_score.example.com", ("under_score.example.com", 443)),
        ("_dmarc.example.com", ("_dmarc.example.com", 443)),
        ("bücher.example", ("xn--bcher-kva.example", 443)),
        ("API.Example.com", ("API.Example.com", 443)),
        ("xn--bcher-kva.example", ("xn--bcher-kva.example", 443)),
        ("localhost", ("localhost", 443)),
        ("3com.example", ("3com.example", 443)),
        ("2001:db8::1", ("2001:db8::1", 443)),
        ("2001:DB8:0::1", ("2001:db8::1", 443)),
        ("[2001:db8::1]:8443", ("2001:db8::1", 8443)),
        ("[2001:db8::1]", ("2001:db8::1", 443)),
        ("user@api.example.com", ("api.example.com", 443)),
        ("https://user:word@203.0.113.10:8443/x", ("203.0.113.10", 8443)),
    ],
)
def test_hosts(word: str, expected: tuple[str, int]) -> None:
    assert host_and_port(word, None) == expected


def test_a_port_in_the_word_is_stronger() -> None:
    assert host_and_port("x:1", 2) == ("x", 1)
    assert host_and_port("x", 2) == ("x", 2)


@pytest.mark.parametrize(
    "word",
    [
        *("", ".", "..", "a..b", ".a", "nosuch.invalid-host..x", "a" * 64 + ".com", "a." * 127 + "com", "a" * 254),
        *("x:", "x:0", "x:70000", "x:y", "x:+1", "x:1_0", "x:" + "9" * 5000, "x:²"),
        *("a b", "x\x1b", "x\n", "a$b", "*.example", "a,b", "a;b", "-", "-a.example", "a-.example", "a'b", "a\x00b"),
        *("1.2.3", "127.1", "256.1.1.1", "1.2.3.4.5", "0x7f.1", "2130706433", "01.2.3.4", "1.2.3.4."),
        *("[::1", "[::1]x", "[]", "[a]", "::1::", "a:b:c", "fe80::1%eth0", "2001:db8::g"),
        *("0.0.0.0", "::", "255.255.255.255", "224.0.0.1", "ff02::1"),
        *("https://", "https:///path", "://", "https://?q", "user@"),
    ],
)
def test_no_hosts(word: str) -> None:
    with pytest.raises(UsageError):
        host_and_port(word, None)


@pytest.mark.parametrize("host", ["a..b", "a b", "x:0", "[::1", "1.2.3"])
def test_no_message_repeats_the_secrets_of_a_url(host: str) -> None:
    with pytest.raises(UsageError) as failed:
        host_and_port(f"https://name:s3cret@{host}/p4th?key=t0ken#s3cret", None)
    assert not {"s3cret", "p4th", "t0ken"} & set(failed.value.message.replace("/", " ").split())
    assert not any(word in failed.value.message for word in ("s3cret", "p4th", "t0ken"))


_pieces = st.sampled_from(
    [*".:[]@/?#%-_ \\", "://", "https", "::", "ffff", "xn--", "ü", "1", "0x", "a" * 64, "\x1b[2J"]
)


@pytest.mark.fuzz
@given(st.one_of(st.text(max_size=80), st.lists(_pieces, max_size=12).map("".join)))
@example("[:1]")
def test_any_word_is_a_host_that_can_be_asked_for_or_wrong_usage(word: str) -> None:
    said = ""
    host, port = "a", 1
    try:
        host, port = host_and_port(word, None)
    except UsageError as error:
        said = error.message
    assert said.isprintable()
    assert len(said) < 300
    assert 0 < port <= LAST_PORT
    try:
        assert str(ipaddress.ip_address(host)) == host
    except ValueError:
        labels = host.removesuffix(".").split(".")
        assert host.isascii()
        assert all(0 < len(label) <= 63 for label in labels)
        assert not labels[-1].isdigit()


def test_positions() -> None:
    assert position("52.5,13.4") == (52.5, 13.4)
    assert position(None) == (None, None)
    for text in ("52.5", "x,y", "91,0", "0,181", "nan,nan"):
        with pytest.raises(UsageError):
            position(text)
