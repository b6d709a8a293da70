# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dns.message
from hypothesis import given
from hypothesis import strategies as st

from netdiag.tables.columns import Columns
from netdiag.tables.messages import passed
from netdiag.testing import START_NS, RecordingBuilder, records_of


def columns(*pieces):
    builder = RecordingBuilder()
    for at, members in enumerate(pieces):
        data = members.pop("data")
        kept = data[: members.pop("copied", 512)]
        rest = {"cookie": 5, "tgid": 1, "direction": 1, "transport": 2, "remote": "10.0.0.53"} | members
        builder.record(
            "dns_message",
            time=START_NS + at,
            length=len(data),
            copied=len(kept),
            data=list(kept.ljust(512, b"\0")),
            **rest,
        )
    return Columns(records_of(builder.recording(), "dns_message"), START_NS)


def query(name, ident=1):
    data = dns.message.make_query(name, "A", id=ident).to_wire()
    return len(data).to_bytes(2, "big") + data


def names(*pieces):
    return [one.message.questions[0].name for one in passed(columns(*pieces))]


def test_several_messages_on_one_stream():
    both = query("one.test") + query("two.test", 2)
    assert names({"data": both}) == ["one.test", "two.test"]


def test_pieces_out_of_order_twice_and_overlapping():
    whole = query("one.test") + query("two.test", 2)
    pieces = [(20, 40), (0, 25), (0, 25), (38, len(whole))]
    found = names(*({"data": whole[low:high], "offset": low} for low, high in pieces))
    assert sorted(found) == ["one.test", "two.test"]


def test_a_hole_ends_the_stream():
    whole = query("one.test") + query("two.test", 2)
    assert names({"data": whole[:30]}, {"data": whole[40:], "offset": 40}) == ["one.test"]


def test_directions_and_sockets_are_apart():
    pieces = [{"data": query("one.test")[:10]}, {"data": query("one.test")[10:], "offset": 10, "cookie": 6}]
    assert names(*pieces) == []


@given(st.lists(st.tuples(st.binary(max_size=80), st.integers(0, 60), st.sampled_from([1, 2])), max_size=6))
def test_any_bytes_are_read_without_a_word(pieces):
    given_ = [{"data": data, "offset": offset, "transport": transport} for data, offset, transport in pieces]
    if given_:
        passed(columns(*given_))
