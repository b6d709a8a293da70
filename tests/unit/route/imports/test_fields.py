# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.errors import InputUnreadable
from netdiag.route.imports import fields
from netdiag.route.model import Ended, Kind, Protocol, Target


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, 1e9, True, "3", [], {}])
def test_no_milliseconds(value):
    with pytest.raises(InputUnreadable, match="here"):
        fields.number(value, "here")


def test_milliseconds():
    assert fields.number(3, "here") == 3.0
    assert fields.number(None, "here") is None


@pytest.mark.parametrize("value", [-1, 256, 1.5, "x", "²", None, True])
def test_no_whole_number(value):
    with pytest.raises(InputUnreadable):
        fields.whole(value, "here")


def test_whole_numbers():
    assert [fields.whole(value, "here") for value in (3, "3", 3.0)] == [3, 3, 3]


def test_addresses_lose_their_zone():
    assert fields.address("fe80::1%eth0", "here") == "fe80::1"
    assert fields.address("2001:DB8::0001", "here") == "2001:db8::1"
    with pytest.raises(InputUnreadable):
        fields.address("203.0.113", "here")


@pytest.mark.parametrize(("word", "way"), [("ICMP", "icmp"), ("udp-paris", "udp"), ("tcp-ack", "tcp"), (None, "udp")])
def test_protocols(word, way):
    assert fields.protocol(word) is Protocol(way)


def test_lists_and_texts_have_limits():
    assert fields.listed({}, "rows", "here") == []
    for value in (3, [0] * 100_001):
        with pytest.raises(InputUnreadable):
            fields.listed({"rows": value}, "rows", "here")
    for text in ("", "x" * 256, 3):
        with pytest.raises(InputUnreadable):
            fields.text(text, "here")


def test_what_importers_make():
    answer = fields.reply("198.18.0.1", 3.0, Kind.TTL_EXCEEDED)
    probes = [fields.probe(1, 0, 0, answer), fields.probe(1, 1, 1, None)]
    made = fields.trace(ip="203.0.113.10", port=80, way=Protocol.ICMP, probes=probes, reached=False, single_flow=True)
    assert (made.port, made.rounds, made.ended) == (None, 2, Ended.SILENT)
    whole = fields.measurement("tool", Target(host="x", port=80), [made], seconds=math.nan)
    assert (whole.version, whole.clocks.realtime_ns) == ("tool", 0)
