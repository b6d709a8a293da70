# SPDX-License-Identifier: Apache-2.0
"""What passive observers of TLS get wrong, one test each, from a recording to its tables.

Others stand where the matter is: an echoed session id, and a retry before the final hello, in test_agreements; session
tickets in test_tickets; a hello in two segments, a tunnel and both ends of one connection in
tests/kernel/test_tls_records.py; STARTTLS and alerts that TLS 1.3 encrypts in tests/kernel/test_tls_causes.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.testing import RecordingBuilder

FULL = [
    (1, "send", 22, 512, 1), (3, "receive", 22, 122, 2), (3, "receive", 23, 1212, 0), (7, "send", 20, 1, 1),
    (7, "send", 23, 69, 0), (7.2, "receive", 23, 250, 0), (7.2, "receive", 23, 250, 0),
]  # fmt: skip
ASKED = [(8, "send", 23, 317, 0), (58, "receive", 23, 917, 0)]


def built(records, *, gap_at=None, **members):
    builder = RecordingBuilder().connection([], srtt=2000, min_rtt=1000, **members)
    for at, side, kind, length, first in records:
        builder.wire(1, side, at, kind, length, first)
    if gap_at is not None:
        builder.wire(1, "receive", gap_at, 1)
    return build(builder.recording())


def test_a_connection_met_in_the_middle_made_no_full_handshake():
    made = built(ASKED * 2, flags=1)
    assert len(made.handshakes) == 0
    row = made.connections.iloc[0]
    assert (row["encrypted"], row["handshake"], row["preexisting"]) == (True, None, True)
    assert np.isnan(row["requests"])


@pytest.mark.parametrize("missing", range(1, 5))
def test_records_that_are_missing_do_not_make_a_resumed_handshake_full_or_the_reverse(missing):
    (row,) = built([*FULL[:missing], *FULL[missing + 1 :]], gap_at=2.5).handshakes.to_dict("records")
    assert row["resumed"] in (None, False)


def test_tickets_are_not_the_beginning_of_an_answer():
    made = built([*FULL, *ASKED])
    (row,) = made.requests.to_dict("records")
    assert (row["wait_ms"], row["response_bytes"]) == (50, 900)
    late = built([*FULL[:5], ASKED[0], (8.5, "receive", 23, 250, 0), (8.5, "receive", 23, 250, 0), ASKED[1]])
    assert late.requests["wait_ms"].tolist() == [50]


def test_losers_of_a_race_between_addresses_shook_no_hands():
    builder = RecordingBuilder().connection([], srtt=2000, min_rtt=1000)
    for at, side, kind, length, first in [*FULL, *ASKED]:
        builder.wire(1, side, at, kind, length, first)
    builder.connection([], closed=("local", 5), family=2)
    made = build(builder.recording())
    assert made.handshakes["connection"].tolist() == [0]
    assert made.connections["handshake"].tolist() == ["h1", None]
    assert made.requests["connection"].tolist() == [0]


def test_a_connection_that_was_opened_ahead_of_need_carried_no_request():
    made = built(FULL)
    assert made.handshakes["outcome"].tolist() == ["completed"]
    assert made.connections["requests"].tolist() == [0]
    assert len(made.requests) == 0


def test_a_closing_alert_is_no_answer_and_no_request():
    goodbye = [(60, "send", 23, 19, 0), (60.1, "receive", 23, 19, 0)]
    made = built([*FULL, *ASKED, *goodbye], closing=1_000_061_000_000, closed_by=1, close=1)
    assert made.connections["requests"].tolist() == [1]
    assert made.requests["response_bytes"].tolist() == [900]


def test_an_encrypted_alert_has_no_name():
    refused = [*FULL[:3], (7, "send", 23, 69, 0), (8, "receive", 23, 19, 0)]
    made = built(refused, closing=1_000_008_100_000, closed_by=2, close=1, kind=3)
    assert made.handshakes["alert"].tolist() == [None]


def test_large_segments_of_loopback_change_no_size():
    whole, split = built(FULL, mss=65483), built(FULL, mss=1448)
    assert whole.handshakes["server_flight_bytes"].tolist() == split.handshakes["server_flight_bytes"].tolist()
