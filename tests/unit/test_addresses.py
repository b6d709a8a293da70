# SPDX-License-Identifier: Apache-2.0
"""Addresses as records hold them and as people write them."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest

from netdiag import addresses


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (bytes(10) + b"\xff\xff\x7f\0\0\1", "127.0.0.1"),
        (bytes(15) + b"\1", "::1"),
        (bytes.fromhex("20010db8" + "00" * 11 + "01"), "2001:db8::1"),
    ],
)
def test_mapped_addresses_are_plain_ipv4(raw, text):
    assert addresses.to_text(raw) == text
    assert addresses.from_text(text) == raw


@pytest.mark.parametrize("raw", [bytes(16), bytes(10) + b"\xff\xff" + bytes(4)])
def test_no_address_is_not_known(raw):
    assert addresses.to_text(raw) is None


@hypothesis.given(st.ip_addresses())
def test_every_address_survives(address):
    text = str(address)
    if address.is_unspecified or (address.version == 6 and address.ipv4_mapped):
        return
    assert addresses.to_text(addresses.from_text(text)) == text


def test_endpoints():
    assert addresses.endpoint("192.0.2.1", 443) == "192.0.2.1:443"
    assert addresses.endpoint("2001:db8::1", 443) == "[2001:db8::1]:443"
    assert addresses.endpoint("192.0.2.1", None) == "192.0.2.1"
    assert addresses.endpoint(None, 443) is None


def test_prefixes_count_bits_of_the_mapped_form():
    assert addresses.prefix("10.0.0.0/8") == (104, addresses.from_text("10.0.0.0"))
    assert addresses.prefix("192.0.2.7") == (128, addresses.from_text("192.0.2.7"))
    assert addresses.prefix("2001:db8::/32")[0] == 32
    with pytest.raises(ValueError, match="example"):
        addresses.prefix("example.com")


def test_loopback():
    assert addresses.is_loopback("127.3.0.1")
    assert addresses.is_loopback("::1")
    assert not addresses.is_loopback("192.0.2.1")
