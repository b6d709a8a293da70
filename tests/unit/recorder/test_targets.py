# SPDX-License-Identifier: Apache-2.0
"""From a start message's target to what the kernel programs are told."""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.errors import UsageError
from netdiag.recorder import targets
from netdiag.recorder.targets import cgroup_root, filters


def key(bits, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    return struct.pack("=I16s", bits, packed if len(packed) == 16 else b"\0" * 10 + b"\xff\xff" + packed)


def test_nothing_asked_for_is_everything():
    chosen = filters({})
    assert chosen.knobs == {"nd_filter_follow": 1, "nd_filter_port": 0}
    assert (chosen.pids, chosen.hosts) == ((), ())


def test_processes_are_looked_up_in_a_map():
    chosen = filters({"pids": [7, 8, 7], "follow": False})
    assert chosen.pids == (7, 8)
    assert (chosen.knobs["nd_filter_tgids"], chosen.knobs["nd_filter_follow"]) == (1, 0)


def test_names_are_cut_as_the_kernel_cuts_them():
    chosen = filters({"comm": "a-very-long-thread-name", "exe": "/opt/x/a-very-long-program"})
    assert chosen.knobs["nd_filter_comm"] == b"a-very-long-thr\0"
    assert chosen.knobs["nd_filter_exe"] == b"a-very-long-pro\0"
    assert chosen.knobs["nd_filter_tgids"] == 1, "whatever runs it now, and nobody else until it is run"


def test_a_running_program_is_found_by_name_and_by_path():
    program = Path(sys.executable).resolve()
    for exe in (str(program), program.name):
        assert os.getpid() in filters({"exe": exe}).pids
    assert os.getpid() not in filters({"exe": f"/nowhere/{program.name}"}).pids


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.0.2.7", key(128, "192.0.2.7")),
        ("192.0.2.0/24", key(120, "192.0.2.0")),
        ("192.0.2.9/24", key(120, "192.0.2.0")),
        ("0.0.0.0/0", key(96, "0.0.0.0")),
        ("2001:db8::/32", key(32, "2001:db8::")),
        ("::1", key(128, "::1")),
        ("::/0", key(0, "::")),
    ],
)
def test_networks_as_keys_of_one_kind(host, expected):
    chosen = filters({"hosts": [host]})
    assert chosen.hosts == (expected,)
    assert chosen.knobs["nd_filter_hosts"] == 1


@pytest.mark.parametrize(
    "target",
    [
        {"pids": "7"},
        {"pids": [0]},
        {"pids": [-1]},
        {"pids": ["7"]},
        {"pids": list(range(1, 20_000))},
        {"port": 0},
        {"port": 65_536},
        {"port": "443"},
        {"exe": ["a", "b"]},
        {"comm": 7},
        {"comm": [""]},
        {"hosts": ["example.com"]},
        {"hosts": ["192.0.2.0/33"]},
        {"hosts": [f"192.0.2.{number}" for number in range(250)] * 2},
        {"cgroup": 7},
        {"cgroup": "/nowhere"},
    ],
)
def test_what_is_no_target_is_refused(target):
    with pytest.raises(UsageError):
        filters(target)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70_000) | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3)
)


@pytest.mark.fuzz
@given(st.dictionaries(st.sampled_from(["pids", "port", "comm", "cgroup", "hosts", "follow"]), _JSON))
def test_any_message_is_a_filter_or_refused(target):
    try:
        chosen = filters(target)
    except UsageError:
        return
    assert all(len(host) == 20 for host in chosen.hosts)
    assert all(isinstance(value, int) or len(value) == 16 for value in chosen.knobs.values())


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Return a folder that looks like a cgroup v2 tree, `/` with `a` and `a/b` in it."""
    for folder, members in ((tmp_path, ""), (tmp_path / "a", "7\n8\n"), (tmp_path / "a" / "b", "9\n")):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.procs").write_text(members)
    monkeypatch.setattr(targets, "_cgroup_mounts", lambda: [str(tmp_path)])
    return tmp_path


def test_a_cgroup_by_its_id_its_depth_and_its_members(tree):
    chosen = filters({"cgroup": str(tree / "a")})
    assert chosen.knobs["nd_filter_cgroup"] == (tree / "a").stat().st_ino
    assert chosen.knobs["nd_filter_cgroup_level"] == 1
    assert sorted(chosen.pids) == [7, 8, 9]
    assert "nd_filter_tgids" not in chosen.knobs, "those that come later are wanted, too"
    assert filters({"cgroup": str(tree / "a" / "b")}).knobs["nd_filter_cgroup_level"] == 2
    assert filters({"cgroup": str(tree)}).knobs["nd_filter_cgroup_level"] == 0


def test_a_folder_elsewhere_is_no_cgroup(tree):
    with pytest.raises(UsageError, match="no folder of a cgroup"):
        filters({"cgroup": str(tree.parent)})


def test_the_tree_is_where_it_is_mounted():
    root = cgroup_root()
    assert root is None or Path(root, "cgroup.controllers").exists()
