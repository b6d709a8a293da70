# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netdiag import testing
from netdiag.bulk import pack
from netdiag.tables.schema import COLUMNS

STREAM: dict[str, Any] = {
    "kind": "sse", "chunks": 4, "first_chunk_ms": 1.25, "first_token_ms": None, "first_reasoning_ms": 0.1,
    "ttft_ms": 2.0, "gap_p50_ms": 0.3, "gap_p95_ms": 0.4, "gap_max_ms": 700.123456, "tokens": None, "finished": True,
    "stalls": [],
}  # fmt: skip
HOSTILE = "\x80evil\u202e\x1b[31m"


def _requests() -> pd.DataFrame:
    rows = [
        testing.request(0, 1, 4, host="api", headers={"retry-after": "1"}, status=200.0, stream=dict(STREAM),
                        source="plaintext", complete=True),
        testing.request(0, 9, 1 / 3, host=HOSTILE, headers={}, request_headers={"a": HOSTILE}, retry_of="r1"),
        testing.request(1, 1e7, 2**40 / 3, path="b'not bytes'", complete=False, reused=None),
    ]  # fmt: skip
    return testing.tables(requests=rows).requests


def _same(one: Any, other: Any) -> bool:
    both_nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return both_nan or (type(one) is type(other) and bool(one == other))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_what_comes_out_is_what_went_in(order):
    rows = _requests()
    packed = pack.joined([pack.pack("requests", rows.iloc[:1]), pack.pack("requests", rows.iloc[1:])], np.array(order))
    back = pack.unpack("requests", packed)
    for name in COLUMNS["requests"]:
        if name == "id":
            continue
        wanted = rows[name].iloc[order].tolist()
        assert all(map(_same, back[name].tolist(), wanted)), (name, back[name].tolist(), wanted)
        assert back[name].dtype == rows[name].dtype, name
    assert back["id"].tolist() == ["r1", "r2", "r3"]


def test_rows_keep_their_numbers():
    rows = _requests()
    packed = pack.joined([pack.pack("requests", rows)], np.arange(3))
    assert pack.unpack("requests", packed.iloc[1:])["id"].tolist() == ["r2", "r3"]
    assert pack.is_packed(packed)
    assert not pack.is_packed(rows)


def test_streams_of_records_have_no_members_that_only_plaintext_tells():
    told = {name: value for name, value in STREAM.items() if name != "first_reasoning_ms"}
    rows = testing.tables(requests=[testing.request(0, 1, 4, stream=told, source="records")]).requests
    packed = pack.joined([pack.pack("requests", rows)], np.arange(1))
    assert pack.unpack("requests", packed)["stream"].iloc[0] == told


def test_numbers_are_as_small_as_they_may_be_exactly():
    packed = pack.pack("requests", _requests())
    assert packed["status"].dtype == np.float16
    assert packed["total_ms"].dtype == np.float64
    assert packed["dns_ms"].dtype == np.float16
