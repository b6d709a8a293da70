# SPDX-License-Identifier: Apache-2.0
"""The numbers in Python are those of the C header."""

from __future__ import annotations

import re

import pytest

from netdiag.assets import data_dir
from netdiag.decode.http import exchange

ENUMS = {
    "nd_http_protocol": exchange.Protocol,
    "nd_http_stream": exchange.StreamKind,
    "nd_http_format": exchange.Format,
    "nd_http_ended": exchange.Ended,
    "nd_http_flags": exchange.Flag,
    "nd_http_chunk_kind": exchange.ChunkKind,
}


@pytest.mark.parametrize(("name", "enum"), ENUMS.items())
def test_an_enum_is_that_of_the_header(name, enum):
    text = (data_dir("bpf") / "include" / "netdiag" / "http.h").read_text()
    (body,) = re.findall(rf"enum {name} \{{(.*?)\}};", text, flags=re.DOTALL)
    found = {c_name: int(value) for c_name, value in re.findall(r"ND_HTTP_(\w+) = (\d+)", body)}
    assert sorted(found.values()) == sorted(int(member) for member in enum)
    by_value = {value: c_name for c_name, value in found.items()}
    for member in enum:
        assert member.name.replace("HTTP", "") in by_value[int(member)].replace("_", "") or by_value[
            int(member)
        ].endswith(member.name)
