# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest

from netdiag.cli.doctor import table
from netdiag.doctor import Check, State
from tests.fakes.commands import call

FINE = Check(name="kernel BTF", state=State.OK, detail="6.12.0, x86_64")
POOR = Check(
    name="wire",
    state=State.DEGRADED,
    detail="no cgroup2 at the usual place " * 4,
    remedy="mount it: mount -t cgroup2 none /sys/fs/cgroup " * 2,
)
GONE = Check(name="libbpf", state=State.MISSING, detail="", remedy="apt install libbpf1")


@pytest.fixture
def doctor(monkeypatch):
    fake = ModuleType("netdiag.doctor")
    checks: list[Check] = []
    monkeypatch.setattr(fake, "examine", lambda: checks, raising=False)
    monkeypatch.setitem(sys.modules, "netdiag.doctor", fake)
    return checks


def test_a_remedy_stands_under_what_it_cures():
    text = table([FINE, POOR, GONE], color=False)
    assert text.splitlines()[0].split() == ["ok", "kernel", "BTF", "6.12.0,", "x86_64"]
    assert "fix: apt install libbpf1" in text.splitlines()[-1]
    assert max(len(line) for line in text.splitlines()) <= 80


def test_colour_is_asked_for():
    assert "\x1b" not in table([GONE], color=False)
    assert "\x1b[1;31m" in table([GONE], color=True)


@pytest.mark.parametrize(("checks", "status"), [([FINE], 0), ([FINE, POOR], 0), ([FINE, GONE], 5)])
def test_status(capsys, doctor, checks, status):
    doctor.extend(checks)
    assert call(capsys, "doctor").status == status


def test_json(capsys, doctor):
    doctor.extend([FINE, GONE])
    found = json.loads(call(capsys, "doctor", "--format", "json").out)
    assert found[1] == {"name": "libbpf", "state": "missing", "detail": "", "remedy": "apt install libbpf1"}
