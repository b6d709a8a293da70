# SPDX-License-Identifier: Apache-2.0
"""Walks, costs and live variables, with a bpf(2) that the test answers."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

import pytest

from netdiag.ebpf import syscall
from netdiag.ebpf.syscall import Variables, enable_stats, in_netns, program_cost, walk
from netdiag.errors import Unsupported


@pytest.fixture
def bpf(monkeypatch):
    """Return a function that sets what bpf(2) answers, and the calls that were made."""
    calls = []

    def answers(answer):
        def call(command, attributes):
            calls.append((command, attributes))
            return answer(command, attributes)

        monkeypatch.setattr(syscall, "bpf", call)
        return calls

    return answers


def failing(number):
    def answer(_command, _attributes):
        ctypes.set_errno(number)
        return -1

    return answer


def pipe_with(data):
    out, into = os.pipe()
    os.write(into, data)
    os.close(into)
    return out


def test_a_walk_reads_to_the_end_and_pauses_on_the_way(bpf):
    calls = bpf(lambda *_: pipe_with(bytes(10_000)))
    pauses = []
    walk(77, lambda: pauses.append(1))
    assert calls == [(33, struct.pack("=II", 77, 0))]
    assert len(pauses) == 3


def test_a_walk_goes_on_where_the_kernel_asks_for_another_turn(bpf, monkeypatch):
    bpf(lambda *_: os.open("/dev/null", os.O_RDONLY))
    answers = iter([BlockingIOError(), b"", b"unread"])

    def read(_fd, _count):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("os.read", read)
    walk(77)
    assert next(answers) == b"unread"


def test_a_walk_that_cannot_begin_says_why(bpf):
    bpf(failing(errno.EPERM))
    with pytest.raises(Unsupported, match="EPERM"):
        walk(77)


def test_a_walk_leaves_no_descriptor_behind(bpf):
    bpf(lambda *_: pipe_with(b"x"))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a number is enough
    walk(77)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_statistics_may_be_forbidden(bpf):
    bpf(failing(errno.EPERM))
    assert enable_stats() is None
    bpf(lambda *_: 5)
    assert enable_stats() == 5


def test_costs_of_programs(bpf):
    """The kernel fills a struct whose place stands in the attributes; a program that is gone is left out."""

    def answer(command, attributes):
        fd, size, address = struct.unpack("=IIQ", attributes)
        assert command == 15
        if fd == 9:
            return -1
        ctypes.memmove(address + 192, struct.pack("=QQ", fd * 1000, fd), 16)
        assert size >= 208
        return 0

    bpf(answer)
    assert program_cost({"first": 3, "gone": 9, "second": 4}) == [
        {"name": "first", "runs": 3, "ns": 3000},
        {"name": "second", "runs": 4, "ns": 4000},
    ]


def test_variables_are_read_and_set_where_the_kernel_sees_them():
    fd = os.memfd_create("ndk-bss")
    os.ftruncate(fd, 4096)
    os.pwrite(fd, struct.pack("=QI", 2**40 + 7, 5), 8)
    variables = Variables({"seen": (fd, 8, 8), "mode": (fd, 16, 4)}, {fd: 20})
    assert (variables.get("seen"), variables.get("mode")) == (2**40 + 7, 5)
    variables.set("mode", 3)
    assert os.pread(fd, 4, 16) == struct.pack("=I", 3)
    os.pwrite(fd, struct.pack("=Q", 9), 8)
    assert variables.get("seen") == 9
    assert "mode" in variables
    assert "other" not in variables
    with pytest.raises(OverflowError):
        variables.set("mode", 1 << 32)
    os.close(fd)


def test_a_namespace_that_is_gone_is_not_entered():
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with in_netns("/proc/999999999/ns/net") as entered:
        assert entered is False
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_what_is_no_namespace_is_not_entered():
    with in_netns("/dev/null") as entered:
        assert entered is False
