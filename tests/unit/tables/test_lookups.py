# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.tables.lookups import look_ups
from netdiag.tables.schema import frame

NAN = math.nan


def asked(name, started, took, answers=(), *, qtype="A", error=None, source="wire", pid=1.0, part_of=NAN):
    return {
        "name": name, "qtype": qtype, "started_ns": started * 1e6, "duration_ms": took, "answers": list(answers),
        "error": error, "source": source, "pid": pid, "part_of": part_of, "attempts": 1.0, "ttl_s": 60.0,
    }  # fmt: skip


def table(*rows):
    names = {name for row in rows for name in row}
    return frame("resolutions", len(rows), {name: [row[name] for row in rows] for name in names})


def test_both_families_are_one_look_up():
    (one,) = look_ups(table(asked("api.test", 0, 20, ["192.0.2.1"]), asked("api.test", 0.1, 120, qtype="AAAA")))
    assert (one.name, one.answers, one.error) == ("api.test", ("192.0.2.1",), None)
    assert one.duration_ms == pytest.approx(120.1)


def test_suffixes_in_vain_and_the_name_are_one_look_up():
    rows = []
    for number, (name, error) in enumerate(
        [("api.test.corp.test", "NXDOMAIN"), ("api.test.svc.test", "NXDOMAIN"), ("api.test", None)]
    ):
        found = [] if error else ["192.0.2.1"]
        rows += [asked(name, number * 21, 20, found, error=error)]
        rows += [asked(name, number * 21 + 0.1, 20, qtype="AAAA", error=error)]
    (one,) = look_ups(table(*rows))
    assert (one.name, len(one.questions), one.answers) == ("api.test", 6, ("192.0.2.1",))
    assert one.duration_ms == pytest.approx(62.1)


def test_names_that_only_begin_alike_stay_apart():
    rows = [asked("api.one.test", 0, 20, ["192.0.2.1"]), asked("api.two.test", 20.5, 20, ["192.0.2.2"])]
    assert [one.name for one in look_ups(table(*rows))] == ["api.one.test", "api.two.test"]


def test_processes_stay_apart_and_a_later_look_up_is_another():
    rows = [asked("api.test", 0, 20, ["192.0.2.1"]), asked("api.test", 5, 20, ["192.0.2.1"], pid=2.0)]
    rows += [asked("api.test", 300, 20, ["192.0.2.1"])]
    assert [(one.pid, one.row) for one in look_ups(table(*rows))] == [(1.0, 0), (2.0, 1), (1.0, 2)]


def test_a_call_has_its_questions_and_reverse_ones_are_none():
    rows = [asked("api.test", 0, 30, ["192.0.2.1"], qtype="A+AAAA", source="libc")]
    rows += [asked("api.test", 1, 28, ["192.0.2.1"], part_of=0.0)]
    rows += [asked("192.0.2.1", 50, 5, qtype="PTR", source="libc")]
    (one,) = look_ups(table(*rows))
    assert (one.source, one.duration_ms, len(one.questions), one.ttl_s) == ("libc", 30, 1, 60)


def test_an_answer_that_never_came_leaves_the_end_unknown():
    rows = [asked("api.test", 0, 20, ["192.0.2.1"]), asked("api.test", 0.1, NAN, qtype="AAAA", error="timeout")]
    (one,) = look_ups(table(*rows))
    assert math.isnan(one.duration_ms)
    assert one.error is None
