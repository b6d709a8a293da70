# SPDX-License-Identifier: Apache-2.0
"""What the kernel is asked for; that it does so is for tests/kernel/test_ssl.py."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

import pytest

from netdiag.ebpf import uprobe
from netdiag.ebpf.uprobe import Site, attach, close_all, has_multi
from netdiag.errors import NotPermitted, Unsupported


class Kernel:
    """Takes the place of bpf(2): remembers what it was asked and answers with a descriptor, or an error."""

    def __init__(self, error=0):
        self.error, self.asked, self.made = error, [], []

    def __call__(self, command, attributes):
        self.asked.append((command, _read(attributes)))
        ctypes.set_errno(self.error)
        if self.error:
            return -1
        self.made.append(os.open("/dev/null", os.O_RDONLY))
        return self.made[-1]


def _read(attributes):
    program, target, kind, flags = struct.unpack_from("=IIII", attributes)
    if kind != uprobe.UPROBE_MULTI:
        return {
            "program": program,
            "target": target,
            "kind": kind,
            "cookie": struct.unpack_from("=Q", attributes, 16)[0],
        }
    path, offsets, counters, cookies, count, how, pid, _ = struct.unpack_from("=QQQQIIII", attributes, 16)
    numbers = f"={count}Q"
    return {
        "program": program,
        "flags": flags,
        "path": ctypes.string_at(path),
        "offsets": struct.unpack(numbers, ctypes.string_at(offsets, 8 * count)),
        "cookies": struct.unpack(numbers, ctypes.string_at(cookies, 8 * count)),
        "counters": counters,
        "how": how,
        "pid": pid,
    }


@pytest.fixture
def kernel(monkeypatch):
    def answers(error=0):
        kernel = Kernel(error)
        monkeypatch.setattr(uprobe, "bpf", kernel)
        return kernel

    return answers


SITES = [Site(0x100, 7), Site(0x230, 8)]


@pytest.mark.parametrize("returns", [False, True])
def test_one_link_for_all_functions(kernel, returns):
    asked = kernel()
    (fd,) = attach(5, "/proc/self/fd/9", SITES, pid=42, returns=returns)
    os.close(fd)
    ((command, told),) = asked.asked
    assert command == 28
    assert (told["program"], told["path"], told["pid"], told["how"]) == (5, b"/proc/self/fd/9", 42, int(returns))
    assert (told["offsets"], told["cookies"], told["counters"]) == ((0x100, 0x230), (7, 8), 0)


@pytest.mark.parametrize(
    ("number", "error"), [(errno.EPERM, NotPermitted), (errno.EACCES, NotPermitted), (errno.EINVAL, Unsupported)]
)
def test_errors_name_file_and_cause(kernel, number, error):
    kernel(number)
    with pytest.raises(error, match=rf"/lib/x\.so.*{errno.errorcode[number]}"):
        attach(5, "/lib/x.so", SITES, pid=1)


@pytest.mark.parametrize(("number", "known"), [(errno.EBADF, True), (errno.EINVAL, False), (errno.EPERM, False)])
def test_whether_the_kernel_has_one_link_for_many(kernel, number, known):
    kernel(number)
    assert has_multi(5) is known


def test_without_the_kernel_s_uprobes_there_is_no_other_way(monkeypatch, tmp_path):
    monkeypatch.setattr(uprobe, "_UPROBES", str(tmp_path / "missing"))
    with pytest.raises(Unsupported, match="no probes on functions"):
        attach(5, "/lib/x.so", SITES, pid=1, multi=False)


@pytest.mark.parametrize("count", [0, 1, 100])
def test_all_are_closed(count):
    fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(count)]
    close_all(fds)
    for fd in fds:
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(fd)
