# SPDX-License-Identifier: Apache-2.0
"""Layouts come from the kernel programs; what packets cannot tell has no place in them."""

from __future__ import annotations

import pytest

from netdiag.capture.layouts import layout, rows


@pytest.mark.parametrize("stream", ["tcp", "tcp_io", "tls_record"])
def test_layouts_are_those_of_the_kernel_programs(stream):
    one = layout(stream)
    assert one.name == stream
    names = {field.name for field in one.fields}
    assert {"time", "cookie"} <= names
    assert not names & {"tgid", "tid", "comm", "unread", "sends", "receives", "last_read", "arrived", "max_lag"}
    assert rows(stream, 3).dtype.itemsize == one.stride


def test_a_stream_that_no_program_writes():
    with pytest.raises(KeyError):
        layout("nothing")
