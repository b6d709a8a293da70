# SPDX-License-Identifier: Apache-2.0
"""The one list of header fields is what is kept, and nothing else."""

from __future__ import annotations

import pytest

from netdiag.decode.http.kept import keep, kept_names, settle

CONTRACT = (
    "retry-after keep-alive connection content-type content-encoding server-timing openai-processing-ms x-request-id "
    "x-ratelimit-* x-stainless-retry-count cf-ray x-amz-cf-pop x-served-by"
)


def test_the_list_is_that_of_the_contract():
    whole, begins = kept_names()
    assert {*(name.decode() for name in whole), *(name.decode() + "*" for name in begins)} == set(CONTRACT.split())


def test_what_is_kept():
    fields: dict[str, str] = {}
    for name, value in (
        (b"retry-after", b"3"), (b"x-ratelimit-remaining-tokens", b"99"), (b"authorization", b"Bearer SECRET"),
        (b"cookie", b"SECRET"), (b"x-ratelimit-\x1b", b"1"), (b"x-api-key", b"SECRET"), (b"content-type", b"\x1b[2J"),
    ):  # fmt: skip
        keep(fields, name, value)
    assert fields == {"retry-after": "3", "x-ratelimit-remaining-tokens": "99"}


def test_the_number_of_fields_is_bounded():
    fields: dict[str, str] = {}
    for number in range(100):
        keep(fields, f"x-ratelimit-a{number}".encode(), b"1")
    assert len(fields) == 24


@pytest.mark.parametrize(
    ("after", "date", "told"),
    [
        ("Tue, 01 Dec 2026 10:00:30 GMT", b"Tue, 01 Dec 2026 10:00:05 GMT", "24"),
        ("Tue, 01 Dec 2026 10:00:30 GMT", b"Tue, 01 Dec 2026 10:00:30 GMT", "0"),
        ("Tue, 01 Dec 2026 10:00:30 GMT", b"Tue, 01 Dec 2026 11:00:00 GMT", "0"),
        ("Tue, 01 Dec 2026 10:00:30 GMT", b"soon", None),
        ("Tue, 01 Dec 2026 10:00:30 GMT", b"\xff", None),
        ("Tue, 01 Dec 2026 10:00:30 GMT", None, None),
        ("2", b"Tue, 01 Dec 2026 10:00:05 GMT", None),
    ],
)
def test_a_date_to_try_again_is_told_in_seconds_of_the_server_s_own_clock(after, date, told):
    fields = {"retry-after": after}
    settle(fields, [(b"date", date)] if date else [])
    assert fields == {"retry-after": told or after}


@pytest.mark.parametrize(
    ("after", "exact", "told"),
    [
        (None, b"250", None), ("1", b"250", None), ("1", b"4000", "1"), (None, b"1500.5", None),
        ("Tue, 01 Dec 2026 10:00:30 GMT", b"700", None), ("2", b"", "2"), ("2", b"soon", "2"), ("2", b"-5", "2"),
        ("2", b"9" * 40, "2"), ("2", b"1e3", "2"), ("2", b"\xff", "2"), ("1.5.2", b"x", "1.5.2"),
    ],
)  # fmt: skip
def test_a_shorter_pause_in_milliseconds_leaves_open_which_is_asked_for(
    after: str | None, exact: bytes, told: str | None
) -> None:
    """Its own value is kept nowhere: it is no field of the list."""
    fields = {"retry-after": after} if after else {}
    settle(fields, [(b"retry-after-ms", exact)])
    assert fields == ({} if told is None else {"retry-after": told})


def test_without_retry_after_nothing_changes():
    fields = {"connection": "close"}
    settle(fields, [(b"date", b"Tue, 01 Dec 2026 10:00:05 GMT")])
    assert fields == {"connection": "close"}
