# SPDX-License-Identifier: Apache-2.0
"""What is loaded for which probes and which target."""

from __future__ import annotations

import os

import pytest

from netdiag import manifest
from netdiag.errors import Unsupported, UsageError
from netdiag.recorder import plan
from netdiag.recorder.plan import job

FIRST = 0xEFFFFFFC


@pytest.fixture(autouse=True)
def _btf(monkeypatch):
    """Believe in a kernel with BTF: nothing is loaded here."""
    monkeypatch.setattr("os.path.exists", lambda _path: True)


def test_the_default_set_with_its_streams():
    found = job([], {}, {"plaintext": True})
    wanted = {probe.name: probe for probe in manifest.probes() if probe.default}
    assert [item.name for item in found.plans] == list(wanted)
    for item in found.plans:
        assert [s["layout"]["name"] for s in item.about["streams"]] == [s.name for s in wanted[item.name].streams]
        assert item.optional == {a.program for a in wanted[item.name].attach if not a.required}
        assert item.path.is_file()


def test_nobody_to_take_plaintext_apart_no_probe_that_looks_at_it():
    with_it, without = job([], {}, {"plaintext": True}), job([], {}, {})
    assert {plan.name for plan in with_it.plans} - {plan.name for plan in without.plans} == {"plain"}
    assert (with_it.knobs["nd_plain"], without.knobs["nd_plain"]) == (1, 0)
    assert "plain" not in {plan.name for plan in job(["tcp", "plain"], {}, {}).plans}


def test_only_the_probes_that_were_named():
    assert [item.name for item in job(["tcp"], {}, {}).plans] == ["tcp"]


def test_an_unknown_probe_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match="no probe 'udp'") as raised:
        job(["tcp", "udp"], {}, {})
    assert "tcp" in str(raised.value.hint)


def test_without_btf_there_is_nothing_to_load(monkeypatch):
    monkeypatch.setattr("os.path.exists", lambda _path: False)
    with pytest.raises(Unsupported, match="BTF") as raised:
        job([], {}, {})
    assert "CONFIG_DEBUG_INFO_BTF" in str(raised.value.hint)


def test_the_target_becomes_knobs_and_entries():
    found = job([], {"pids": [258], "port": 443, "hosts": ["192.0.2.0/24"]}, {})
    assert found.entries["targets"] == [b"\2\1\0\0"]
    assert found.knobs["nd_filter_port"] == 443
    assert [len(key) for key in found.entries["hosts"]] == [20]


@pytest.mark.parametrize(("given", "expected"), [(250_000, 250_000), (None, None), (0, None), (-5, None), ("9", None)])
def test_the_burst_gap(given, expected):
    assert job([], {}, {"burst_gap_ns": given}).knobs.get("nd_burst_gap_ns") == expected


@pytest.mark.parametrize(("inode", "expected"), [(FIRST, 0), (4_026_532_999, 4_026_532_999)])
def test_the_pid_namespace_is_told_where_it_is_not_the_first(monkeypatch, inode, expected):
    real = os.stat
    found = real("/proc/self/ns/pid")
    fake = os.stat_result((*found[:1], inode, *found[2:]))
    monkeypatch.setattr("os.stat", lambda path, **kw: fake if path == "/proc/self/ns/pid" else real(path, **kw))
    assert plan._pid_namespace() == expected
