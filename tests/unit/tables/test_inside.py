# SPDX-License-Identifier: Apache-2.0
"""What was read with secrets goes before what sizes suggest; broken facts change nothing."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from netdiag.tables.inside import tell
from netdiag.tables.schema import frame

FACT = {
    "kind": "inside", "cookie": 11, "opened": 9, "closed": 0, "alpn": "h2", "extensions": True, "early_accepted": False,
    "certificates": 3, "tickets": 1, "finished": True, "alerts": [{"alert": "close_notify"}],
}  # fmt: skip


def told(fact: dict[str, Any], **changed: Any) -> dict[str, Any]:
    shake = {
        "id": ["h1", "h2"], "connection": [0, 1], "outcome": ["completed"] * 2, "version": ["TLSv1.3"] * 2,
        "early_data": ["none"] * 2, "tickets_issued": [2.0, 2.0], "resumable": [True] * 2,
    }  # fmt: skip
    shake |= {name: [value] * 2 for name, value in changed.items()}
    tables: dict[str, pd.DataFrame] = {
        "connections": frame("connections", 2, {"id": ["c1", "c2"], "cookie": [10, 11]}),
        "handshakes": frame("handshakes", 2, shake),
    }
    before = tables["handshakes"].iloc[0].to_dict()
    tell(tables, [fact])
    first, second = tables["handshakes"].to_dict("records")
    assert str(first) == str(before)
    return {str(name): value for name, value in second.items()}


def test_what_was_counted_is_told():
    row = told(FACT)
    assert (row["alpn"], row["certificate_count"], row["tickets_issued"], row["alert"]) == ("h2", 3, 1, None)
    assert (row["resumable"], row["early_data"]) == (True, "none")


def test_without_a_ticket_nothing_can_be_resumed():
    row = told(FACT | {"tickets": 0})
    assert (row["tickets_issued"], row["resumable"]) == (0, False)


def test_what_stayed_closed_may_hold_a_ticket():
    row = told(FACT | {"tickets": 0, "closed": 4})
    assert (row["tickets_issued"], row["resumable"]) == (2, True)


@pytest.mark.parametrize(("accepted", "early"), [(True, "accepted"), (False, "refused")])
def test_early_data_are_decided_by_the_server_s_word(accepted, early):
    assert told(FACT | {"early_accepted": accepted}, early_data="offered")["early_data"] == early


def test_an_alert_that_was_sealed_is_named():
    fact = FACT | {"alerts": [{"alert": "close_notify"}, {"alert": "certificate_required"}]}
    assert told(fact)["alert"] == "certificate_required"
    assert told(fact, alert="unknown_ca")["alert"] == "unknown_ca"


@pytest.mark.parametrize(
    "broken",
    [
        {"cookie": "11"}, {"certificates": -1}, {"certificates": "3"}, {"tickets": True}, {"alpn": 7}, {"alerts": 3},
        {"alerts": [3, {"alert": 4}]}, {"extensions": "yes"},
    ],
)  # fmt: skip
def test_broken_members_settle_nothing(broken):
    row = told(FACT | broken)
    assert row["tickets_issued"] in (1, 2)
    assert row["alert"] is None
    assert row["alpn"] in ("h2", None)
    assert str(row["certificate_count"]) in ("3.0", "nan")


def test_without_handshakes_there_is_nothing_to_do():
    tables: dict[str, pd.DataFrame] = {}
    tell(tables, [FACT])
    assert tables == {}
