# SPDX-License-Identifier: Apache-2.0
"""What both sides agreed on; each rule that passive observers get wrong has a test here."""

from __future__ import annotations

import pytest

from netdiag.decode.tls import Messages, read
from netdiag.tables.agreements import NAMES, agreements
from netdiag.tables.hellos import Said
from tests.fakes import handshake as tls

OLD_CLIENT = tls.client_hello([(10, tls.vector(tls.numbers(29), 2)), (35, b"")], session=b"")


def agreed(client=b"", server=b"", *, echo=None, whole=True):
    sessions = {None: (None, None), True: ("aa", "aa"), False: ("aa", "bb")}[echo]
    said = Said(
        client=read(client), server=read(server), client_whole=whole, server_whole=whole,
        client_session=sessions[0], server_session=sessions[1],
    )  # fmt: skip
    return {name: values[0] for name, values in agreements({0: said}, 1).items()}


def test_a_full_handshake_of_tls_13():
    row = agreed(tls.modern(), tls.server_hello_13(), echo=True)
    assert (row["version"], row["cipher"], row["group"]) == ("TLSv1.3", "TLS_AES_256_GCM_SHA384", "X25519")
    assert (row["sni"], row["alpn_offered"]) == ("api.example.test", ["h2", "http/1.1"])
    assert (row["hello_retry"], row["early_data"], row["client_hello_bytes"]) == (False, "none", len(tls.modern()))


def test_what_tls_13_hides_is_unknown():
    row = agreed(tls.modern(), tls.server_hello_13())
    assert (row["alpn"], row["certificate_count"], row["tickets_issued"]) == (None, None, None)


def test_the_echoed_session_id_of_tls_13_is_no_resumption():
    assert agreed(tls.modern(), tls.server_hello_13(), echo=True)["resumed"] is False
    assert agreed(tls.modern(psk=True), tls.server_hello_13(), echo=True)["resumed"] is False
    assert agreed(tls.modern(psk=True), tls.server_hello_13(psk=True))["resumed"] is True


def test_the_final_hello_decides_not_the_retry():
    server = tls.server_hello_13(retry=True, group=24) + tls.server_hello_13(psk=True, group=24)
    row = agreed(tls.modern(psk=True), server)
    assert (row["hello_retry"], row["resumed"], row["group"]) == (True, True, "P-384")


def test_a_retry_alone_tells_what_will_be_chosen_but_not_whether_it_resumes():
    row = agreed(tls.modern(psk=True), tls.server_hello_13(retry=True, group=24))
    assert (row["hello_retry"], row["version"], row["group"], row["resumed"]) == (True, "TLSv1.3", "P-384", None)


def test_a_full_handshake_of_tls_12():
    row = agreed(OLD_CLIENT, tls.flight_12(count=2))
    assert (row["version"], row["group"], row["alpn"]) == ("TLSv1.2", "X25519", "http/1.1")
    assert (row["resumed"], row["certificate_count"], row["tickets_issued"], row["resumable"]) == (False, 2, 1, True)
    assert row["offered"] == "none"


def test_tls_12_resumes_where_the_id_comes_back_and_no_certificate_does():
    client = tls.client_hello([(35, tls.TICKET)])
    row = agreed(client, tls.server_hello(), echo=True)
    assert (row["resumed"], row["offered"], row["certificate_count"]) == (True, "ticket", 0)
    assert agreed(client, tls.server_hello(), echo=False)["resumed"] is None
    assert agreed(client, tls.flight_12(), echo=True)["resumed"] is False


@pytest.mark.parametrize(
    ("client", "server", "echo", "offered"),
    [
        (tls.modern(psk=True), b"", None, "psk"),
        (tls.client_hello([(35, tls.TICKET)]), b"", None, "ticket"),
        (tls.client_hello(), b"", None, "session_id"),
        (tls.client_hello(session=b""), b"", None, "none"),
        # a client of TLS 1.3 sends an id for old middleboxes; only a server of TLS 1.2 that knows it proves a session
        (tls.client_hello([(43, tls.vector(tls.numbers(0x0304), 1))]), b"", None, "none"),
        (tls.client_hello([(43, tls.vector(tls.numbers(0x0304), 1))]), tls.server_hello(), True, "session_id"),
        (tls.client_hello([(43, tls.vector(tls.numbers(0x0304), 1))]), tls.server_hello_13(), True, "none"),
        (b"", b"", None, None),
    ],
)
def test_what_was_offered(client, server, echo, offered):
    assert agreed(client, server, echo=echo)["offered"] == offered


def test_an_id_that_a_server_gave_before_was_offered():
    client = tls.client_hello([(43, tls.vector(tls.numbers(0x0304), 1))])
    said = Said(client=read(client), server=read(tls.flight_12()), server_whole=True, session_known=True)
    row = {name: values[0] for name, values in agreements({0: said}, 1).items()}
    assert (row["offered"], row["resumed"]) == ("session_id", False)


def test_early_data():
    client = tls.modern(psk=True, early=True)
    assert agreed(client)["early_data"] == "offered"
    assert agreed(client, tls.server_hello_13(psk=True))["early_data"] == "offered"
    assert agreed(client, tls.server_hello_13())["early_data"] == "refused"
    retried = tls.server_hello_13(retry=True) + tls.server_hello_13(psk=True)
    assert agreed(client, retried)["early_data"] == "refused"
    assert agreed(client, tls.flight_12())["early_data"] == "refused"


def test_a_cut_hello_leaves_open_what_may_have_been_in_it():
    row = agreed(tls.modern(psk=True)[:90], whole=False)
    assert (row["offered"], row["alpn_offered"], row["early_data"]) == (None, None, None)
    assert agreed(tls.modern(), tls.server_hello_13()[:-50], whole=False)["version"] is None


def test_tickets_are_counted_only_where_nothing_is_missing():
    assert agreed(OLD_CLIENT, tls.flight_12(), whole=False)["tickets_issued"] is None


def test_a_silent_handshake_tells_nothing():
    columns = agreements({1: Said(client=Messages())}, 3)
    assert set(columns) == set(NAMES)
    assert all(value is None for values in columns.values() for value in values)
