# SPDX-License-Identifier: Apache-2.0
"""Which processes get probes on which files and when, with a kernel and files that the test made up."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

from netdiag.ebpf import uprobe
from netdiag.ebpf.uprobe import Site
from netdiag.errors import Unsupported
from netdiag.recorder import uprobes
from netdiag.recorder.functions import tables
from netdiag.recorder.objects import Probed
from netdiag.recorder.uprobes import FunctionProbes
from netdiag.testing import layout

SEEN, FORK, EXEC, EXIT = 1, 2, 3, 4
OPENSSL = next(table for table in tables() if table.library == "openssl")


class Machine:
    """Processes by pid: what each has mapped; and the probes that were put on them."""

    def __init__(self):
        self.mapped: dict[int, list[str]] = {}
        self.files: dict[str, Probed] = {}
        self.usual_names: list[str] = []
        self.loaders: set[int] = set()
        self.size = 1
        self.attached: list[tuple[int, str, bool]] = []
        self.refuse = ""
        self.closed: list[int] = []
        self.denied: set[str] = set()
        self.full = False

    def file(self, path, *, shakes=True):
        number = len(self.files) + 900
        self.files[path] = Probed(
            fd=number, path=path, table=OPENSSL, sites={"ssl": ([Site(1, 1)], [Site(1, 1)])}, shakes=shakes, cheap=True,
            version="3.0.1" if not shakes else None, version_sought=True,
        )  # fmt: skip

    def library(self, _places, path):
        return self.files.get(path)

    def program(self, _pid):
        return None

    def usual(self, _pid):
        return [self.files[name] for name in self.usual_names]

    def loads_others(self, pid):
        return pid in self.loaders

    def attach(self, _program, path, _sites, *, pid, returns, **_):
        if self.refuse:
            raise Unsupported(f"probing functions of {path}: {self.refuse}")
        name = next(name for name, probed in self.files.items() if probed.attach_path == path)
        self.attached.append((pid, name, returns))
        return [1000 + len(self.attached)]

    def pids(self, path="libssl"):
        return [pid for pid, name, returns in self.attached if name == path and not returns]


@pytest.fixture
def machine(monkeypatch):
    made = Machine()
    made.file("libssl")
    made.file("libcrypto", shakes=False)
    monkeypatch.setattr(uprobes, "Objects", lambda **_: made)
    monkeypatch.setattr(uprobes, "_mapped", lambda pid: [((path,), path) for path in made.mapped.get(pid, ())])
    monkeypatch.setattr(uprobes, "_first_word", lambda path: b"%d" % made.size if _pid(path) in made.mapped else b"")
    monkeypatch.setattr(uprobe, "has_multi", lambda _: True)
    monkeypatch.setattr(uprobe, "attach", made.attach)
    monkeypatch.setattr(uprobe, "close_all", made.closed.extend)
    return made


def _pid(path):
    return int(path.split("/")[2])


@pytest.fixture
def probes(machine):
    assert machine is not None
    made = FunctionProbes({"ssl": (3, 4)})
    yield made
    made.stop()


def records(*events):
    """Return a run of records (kind, pid, parent)."""
    shape = layout("process")
    places = {field.name: shape.offset + field.offset for field in shape.fields}
    run = bytearray()
    for kind, pid, parent in events:
        record = bytearray(shape.stride)
        record[places["kind"]] = kind
        struct.pack_into("=I", record, places["tgid"], pid)
        struct.pack_into("=I", record, places["parent"], parent)
        run += record
    return shape, [memoryview(bytes(run))]


def until(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_processes_that_are_there_are_probed_before_start_returns(machine, probes):
    machine.mapped[7] = ["libssl", "libcrypto", "other"]
    probes.start([7])
    assert machine.attached == [(7, name, side) for name in ("libssl", "libcrypto") for side in (True, False)]


def test_libraries_are_probed_before_a_process_has_them(machine, probes):
    machine.mapped[7], machine.usual_names = [], ["libssl"]
    probes.start([7])
    assert machine.pids() == [7]
    probes.stop()
    assert list(probes.news()) == []  # it has none yet


def test_a_library_is_told_once_with_the_version_of_its_sibling(machine, probes):
    machine.mapped[7] = ["libssl", "libcrypto"]
    probes.start([7])
    probes.follow(*records((SEEN, 7, 1), (EXEC, 7, 1)))
    until(lambda: not probes._orders)
    probes.stop()
    (fact,) = probes.news()
    assert (fact["pid"], fact["path"], fact["library"], fact["version"]) == (7, "libssl", "openssl", "3.0.1")
    assert (fact["how"], fact["cheap"], fact["plaintext"]) == ("symbols", True, None)


def test_a_child_gets_what_its_parent_has(machine, probes):
    machine.mapped[7] = machine.mapped[8] = ["libssl"]
    probes.start([7])
    probes.follow(*records((FORK, 8, 7)))
    until(lambda: machine.pids() == [7, 8])


def test_a_stranger_s_child_gets_nothing(machine, probes):
    machine.mapped[9] = ["libssl"]
    probes.start([])
    probes.follow(*records((FORK, 9, 5)))
    until(lambda: not probes._orders)
    probes.stop()
    assert machine.attached == []


def test_a_program_that_loads_no_libraries_gets_none_in_advance(machine, probes):
    machine.usual_names, machine.mapped = ["libssl"], {8: [], 9: []}
    machine.loaders = {9}
    probes.start([])
    probes.follow(*records((EXEC, 8, 7), (EXEC, 9, 7)))
    until(lambda: machine.pids() == [9])


def test_a_new_process_is_probed_before_it_runs_a_program(machine, probes):
    machine.usual_names, machine.mapped = ["libssl"], {7: [], 8: []}
    probes.start([])
    probes.follow(*records((FORK, 8, 7)))
    until(lambda: machine.pids() == [8])


def test_of_many_new_processes_only_the_first_are_probed_unseen(machine, monkeypatch):
    monkeypatch.setattr(uprobes, "_EARLY", 2)
    machine.usual_names = ["libssl"]
    busy = FunctionProbes({"ssl": (3, 4)})
    busy.start([])
    busy.follow(*records(*((FORK, pid, 7) for pid in range(20, 26))))
    until(lambda: not busy._orders)
    busy.stop()
    assert machine.pids() == [20, 21]


def test_what_a_grandchild_used_the_next_one_gets_before_it_runs(machine, probes, monkeypatch):
    """A shell starts a shell for each call, and that one the program."""
    monkeypatch.setattr(probes, "_early", 0)
    machine.mapped = {7: [], 8: [], 9: ["libssl"]}
    probes.start([7])
    probes.follow(*records((SEEN, 7, 1), (FORK, 8, 7), (FORK, 9, 8), (EXEC, 9, 8)))
    until(lambda: machine.pids() == [9])
    probes.follow(*records((EXIT, 9, 8), (EXIT, 8, 7), (FORK, 10, 7), (FORK, 11, 10)))
    until(lambda: machine.pids() == [9, 10, 11])


def test_a_library_that_comes_later_is_found(machine, probes):
    machine.mapped[7] = []
    probes.start([])
    probes.follow(*records((SEEN, 7, 1)))
    time.sleep(0.02)
    machine.mapped[7], machine.size = ["libssl"], 2
    until(lambda: machine.pids() == [7])


def test_an_unchanged_process_is_not_looked_at_again(machine, probes, monkeypatch):
    looks: list[int] = []

    def mapped(pid):
        looks.append(pid)
        return [(("libssl",), "libssl")]

    monkeypatch.setattr(uprobes, "_mapped", mapped)
    machine.mapped[7] = ["libssl"]
    probes.start([7])
    time.sleep(0.1)
    assert looks == [7]


def test_probes_of_a_process_that_ended_are_taken_away_and_its_number_is_free(machine, probes):
    machine.mapped[7] = ["libssl"]
    probes.start([7])
    probes.follow(*records((EXIT, 7, 1), (FORK, 7, 1), (SEEN, 7, 1)))
    until(lambda: machine.pids() == [7, 7])
    probes.stop()
    probes.close()
    assert sorted(machine.closed) == [1001, 1002, 1003, 1004]


def test_what_the_kernel_refuses_is_a_reason_with_the_path(machine, probes):
    machine.mapped[7], machine.refuse = ["libssl"], "Operation not permitted (EPERM)"
    probes.start([7])
    assert probes.reasons() == ["probing functions of libssl: Operation not permitted (EPERM)"]
    assert list(probes.news()) == []


def test_a_process_that_ended_meanwhile_is_no_reason(machine, probes):
    machine.usual_names, machine.refuse = ["libssl"], "No such process (ESRCH)"
    probes.start([7])
    assert probes.reasons() == []


def test_what_may_not_be_looked_at_is_a_reason(machine, probes, monkeypatch):
    def barred(pid):
        raise PermissionError(pid)

    machine.mapped[7] = ["libssl"]
    monkeypatch.setattr(uprobes, "_mapped", barred)
    probes.start([7])
    machine.denied = {"/usr/lib/libssl.so.3"}
    assert probes.reasons() == [
        "the memory map of a process may not be read: its TLS libraries are not known",
        "/usr/lib/libssl.so.3 may not be opened",
    ]


def test_that_files_were_left_out_is_a_reason(machine, probes):
    machine.full = True
    assert probes.reasons() == [
        "more programs and libraries than are looked at: the TLS libraries of the last ones are not probed"
    ]


def test_there_is_a_limit(machine, probes, monkeypatch):
    monkeypatch.setattr(uprobes, "_MOST_PROCESSES", 2)
    machine.mapped = {pid: ["libssl"] for pid in (1, 2, 3)}
    probes.start([1, 2, 3])
    assert machine.pids() == [1, 2]
    assert probes.reasons() == ["more than 2 processes: TLS libraries of the others are not probed"]


def test_the_map_of_this_process():
    found = {path: places for places, path in uprobes._mapped(os.getpid())}
    assert os.path.realpath("/proc/self/exe") in found or any("/libc" in path for path in found)
    assert all(places[0].startswith(f"/proc/{os.getpid()}/map_files/") for places in found.values())
    assert any(Path(places[0]).exists() for places in found.values()) or os.geteuid()


def test_a_process_that_is_gone_has_no_map():
    assert list(uprobes._mapped(2**22 + 1)) == []
