# SPDX-License-Identifier: Apache-2.0
"""What was read of encrypted handshakes with their secrets (facts `inside`) put into the table of handshakes. Pure.

It goes before what sizes of records suggest: certificates, tickets and alerts were counted where they stood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

__all__ = ["tell"]

_ORDERLY = frozenset({"close_notify", "user_canceled"})
_MAX_NAME = 255


def tell(tables: dict[str, pd.DataFrame], facts: Iterable[Mapping[str, Any]]) -> None:
    """Change the handshakes of the connections that facts are about."""
    told = {fact["cookie"]: fact for fact in facts if type(fact.get("cookie")) is int}
    if not told or not len(tables.get("handshakes", ())):
        return
    shakes = tables["handshakes"].copy()
    cookies = tables["connections"]["cookie"].to_numpy()[shakes["connection"].to_numpy()]
    columns = {name: shakes[name].to_numpy(copy=True) for name in _COLUMNS}
    for row, cookie in enumerate(cookies.tolist()):
        if cookie in told:
            old = {name: columns[name][row] for name in _COLUMNS}
            for name, value in _known(told[cookie], old).items():
                columns[name][row] = value
    tables["handshakes"] = shakes.assign(
        **{name: pd.Series(values, index=shakes.index, dtype=shakes[name].dtype) for name, values in columns.items()}
    )


_COLUMNS = ("alpn", "certificate_count", "tickets_issued", "resumable", "early_data", "alert", "version", "outcome")


def _known(fact: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that a fact settles; members of a wrong kind settle nothing."""
    found: dict[str, Any] = {}
    alpn, count, tickets = fact.get("alpn"), _count(fact.get("certificates")), _count(fact.get("tickets"))
    if fact.get("extensions") is True:
        found["alpn"] = alpn[:_MAX_NAME] if isinstance(alpn, str) else None
        if old["early_data"] in ("offered", "accepted", "refused"):
            found["early_data"] = "accepted" if fact.get("early_accepted") is True else "refused"
    if count is not None:
        found["certificate_count"] = float(count)
    modern = isinstance(old["version"], str) and old["version"].startswith("TLSv1.3")
    if tickets is not None and fact.get("finished") is True and modern and old["outcome"] == "completed":
        # what stayed closed may have held one more
        if fact.get("closed") == 0 or tickets > 0:
            found["tickets_issued"] = float(tickets)
        found["resumable"] = tickets > 0 if fact.get("closed") == 0 or tickets > 0 else old["resumable"]
    alerts = fact.get("alerts")
    names = [each.get("alert") for each in alerts if isinstance(each, Mapping)] if isinstance(alerts, list) else []
    bad = [name for name in names if isinstance(name, str) and name not in _ORDERLY]
    if bad and old["alert"] is None:
        found["alert"] = bad[0][:_MAX_NAME]
    return found


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 16 else None
