# SPDX-License-Identifier: Apache-2.0
"""The facts `hello` find their connections, and foreign ones do no harm."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest

from netdiag.decode.kept import redact
from netdiag.decode.tls import read
from netdiag.tables.columns import Columns
from netdiag.tables.connections import connections, sockets
from netdiag.tables.hellos import Chained, Said, hellos
from netdiag.testing import START_NS, RecordingBuilder, records_of
from tests.fakes import handshake as tls


def packed(data):
    return base64.b64encode(zlib.compress(redact(data))).decode()


def fact(direction="send", data=None, **members):
    default = {"cookie": 1, "direction": direction, "at_ns": START_NS + 10, "whole": True, "session": "f2f2f2f2"}
    return default | ({"id": 1, "data": packed(data)} if data is not None else {}) | members


def said(*facts, **members):
    recording = RecordingBuilder().connection([], **members).connection([], **members).recording()
    found = sockets(Columns(records_of(recording, "tcp"), START_NS))
    return hellos(facts, found, connections(found, hz=250, lossy=False), START_NS)


def test_both_sides_are_read():
    one = said(fact("send", tls.modern()), fact("receive", tls.server_hello_13(), id=2))[0]
    assert one.client == read(redact(tls.modern()))
    assert one.server == read(redact(tls.server_hello_13()))
    assert (one.client_whole, one.server_whole, one.echoed) == (True, True, True)


def test_at_a_servers_end_the_client_is_the_other_side():
    one = said(fact("receive", tls.modern()), fact("send", tls.server_hello_13(), id=2), role=2)[0]
    assert (len(one.client.client_hellos), len(one.server.server_hellos)) == (1, 1)


def test_what_was_said_before_is_found_by_its_number():
    found = said(fact("send", tls.modern(), id=7), fact("send", cookie=2, same=7))
    assert found[0].client == found[1].client


def test_the_parts_of_a_long_handshake_are_joined():
    later = fact("receive", tls.server_hello_13(), id=2, at_ns=START_NS + 10**9, session=None)
    one = said(fact("receive", tls.server_hello_13(retry=True)), later)[0]
    assert [hello.retry for hello in one.server.server_hellos] == [True, False]
    assert one.server_session == "f2f2f2f2"
    assert said(fact("receive", tls.server_hello_13()), {**later, "whole": False})[0].server_whole is False


def test_an_id_that_a_server_gave_before_is_a_session():
    given = fact("receive", tls.server_hello(), id=2, session="bb")
    first, second = said(fact("send", tls.modern()), given, fact("send", cookie=2, same=1, session="bb")).values()
    assert (first.session_known, second.session_known) == (False, True)
    echo = fact("receive", tls.server_hello(), id=2)
    first, second = said(fact("send", tls.modern()), echo, fact("send", cookie=2, same=1)).values()
    assert (first.echoed, second.session_known) == (True, False)


def test_a_side_that_was_not_seen_said_nothing():
    one = said(fact("send", tls.modern()))[0]
    assert (one.server, one.server_whole, one.server_session, one.echoed) == (read(b""), False, None, False)


@pytest.mark.parametrize(
    "members",
    [
        {"cookie": "1"}, {"cookie": -1}, {"cookie": 1 << 70}, {"cookie": True}, {"direction": "up"}, {"at_ns": None},
        {"cookie": 99},
    ],
)  # fmt: skip
def test_a_fact_without_its_place_is_passed_over(members):
    assert said(fact("send", tls.modern()) | members) == {}


@pytest.mark.parametrize("data", [17, None, "###", base64.b64encode(b"no zlib").decode(), ["x"]])
def test_a_text_that_cannot_be_unpacked_is_missing(data):
    one = said({**fact("send", tls.modern()), "data": data})[0]
    assert (one.client, one.client_whole) == (read(b""), False)
    assert said(fact("send", same=5))[0].client_whole is False


def test_a_text_that_unpacks_to_very_much_is_cut():
    bomb = base64.b64encode(zlib.compress(bytes(10_000_000))).decode()
    one = said({**fact("send", tls.modern()), "data": bomb})[0]
    assert len(one.client.kinds) <= 64


def test_no_facts_no_rows():
    assert said() == {}
    assert Said().echoed is False
    assert np.size(list(said(fact("send", tls.modern())))) == 1


def test_a_server_s_chain_is_told():
    answer = fact("receive", tls.flight_12(), id=2, chain=[[900, 1, 2, True], [800, 2, None, False]])
    one = said(fact("send", tls.client_hello(), chain=[[1, 9, 9, False]]), answer)[0]
    assert one.chain == (
        Chained(size=900, subject=1, issuer=2, fetchable=True),
        Chained(size=800, subject=2, issuer=None, fetchable=False),
    )


@pytest.mark.parametrize(
    "chain",
    [
        [], {}, "x", 3, [3], [[]], [[1, 2, 3]], [[0, 1, 1, False]], [[1, -1, 1, False]], [[1, 1, "a", False]],
        [[1, 1, 1, 1]], [[True, 1, 1, True]], [[1 << 24, 1, 1, True]], [[1, 1, 1, True]] * 17,
    ],
)  # fmt: skip
def test_a_chain_that_is_none_is_not_believed(chain):
    assert said(fact("receive", tls.flight_12(), chain=chain))[0].chain is None
