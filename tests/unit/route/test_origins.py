# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ipaddress
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable
from netdiag.route.origins import load, shipped


@pytest.mark.parametrize(
    ("ip", "asn"),
    [
        ("8.8.8.8", 15169), ("1.1.1.1", 13335), ("62.115.123.27", 1299), ("2606:4700::1", 13335),
        ("::ffff:8.8.8.8", 15169),
        ("10.0.0.1", None), ("0.0.0.0", None), ("255.255.255.255", None), ("::", None), ("ffff::", None),
    ],
)  # fmt: skip
def test_known_networks(ip, asn):
    found = shipped().find(ip)
    assert (found.asn if found else None) == asn


@given(st.ip_addresses())
def test_every_address_has_an_answer(address):
    found = shipped().find(str(address))
    assert found is None or 0 < found.asn < 1 << 32


def test_a_look_up_takes_microseconds():
    best = min(_seconds() for _ in range(5))
    assert best / 1000 < 100e-6


def _seconds():
    began = time.perf_counter()
    for number in range(1000):
        shipped().find(str(ipaddress.IPv4Address(number * 4_000_037 % (1 << 32))))
    return time.perf_counter() - began


def test_it_says_where_it_is_from():
    source = shipped().source
    assert source.licence == "CC BY 4.0"
    assert source.date is not None
    assert "RouteViews" in (source.attribution or "")


def test_it_is_small_enough_to_ship():
    import zlib

    assert len(zlib.compress((data_dir("probes") / "routes" / "asn.bin").read_bytes(), 6)) < 8_000_000


@pytest.mark.parametrize("data", [b"", b"NDASN\0", b"x" * 100, b"NDASN\0\x01\0\x02\0\0\0{}" + bytes(90)])
def test_other_files_are_refused(tmp_path, data):
    bad = tmp_path / "asn.bin"
    bad.write_bytes(data)
    with pytest.raises(InputUnreadable):
        load(bad)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(InputUnreadable):
        load(tmp_path / "none")
