# SPDX-License-Identifier: Apache-2.0
"""The numbers in Python are those of the C header and of Linux."""

from __future__ import annotations

import errno
import re
import sys

import pytest

from netdiag.assets import data_dir
from netdiag.tables import codes

ENUMS = {
    "nd_tcp_kind": codes.TcpKind,
    "nd_role": codes.Role,
    "nd_side": codes.Side,
    "nd_close": codes.Close,
    "nd_tcp_flags": codes.TcpFlags,
    "nd_direction": codes.Direction,
    "nd_io_flags": codes.IoFlags,
    "nd_process_kind": codes.ProcessKind,
    "nd_wire_class": codes.WireClass,
    "nd_tls_type": codes.RecordType,
}


@pytest.mark.parametrize(("name", "enum"), ENUMS.items())
def test_an_enum_is_that_of_the_header(name, enum):
    text = (data_dir("bpf") / "include" / "netdiag" / "event.h").read_text()
    (body,) = re.findall(rf"enum {name} \{{(.*?)\}};", text, flags=re.DOTALL)
    values = [int(value) for value in re.findall(r"ND_\w+ = (\d+)", body)]
    names = re.findall(r"ND_(\w+) = \d+", body)
    assert [int(member) for member in enum] == values
    for member, c_name in zip(enum, names, strict=True):
        assert c_name.endswith(member.name), (member, c_name)


@pytest.mark.skipif(sys.platform != "linux", reason="compares with this machine's Linux")
def test_error_numbers_are_those_of_linux():
    assert {getattr(errno, name): name for name in codes.ERRNO_NAMES.values()} == codes.ERRNO_NAMES


def test_states_are_numbered_as_in_the_kernel():
    assert [state.name for state in codes.TcpState][:3] == ["ESTABLISHED", "SYN_SENT", "SYN_RECV"]
    assert [int(state) for state in codes.TcpState] == list(range(1, 13))
