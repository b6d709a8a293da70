# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.asserts import names, parse
from netdiag.errors import UsageError
from tests.fakes import documents

SUMMARY = {
    "connections": 2,
    "reuse": 0.96,
    "retries": None,
    "wait_ms": {"p95": 250.0, "jitter": None},
    "time": [{"part": "client-setup", "ms": 12.0, "share": 0.1}],
    "by_host": [{"host": "a", "requests": 3}],
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("connections<=2", True),
        ("connections < 2", False),
        ("connections==2", True),
        ("connections!=2", False),
        ("connections > 1", True),
        (" reuse >= 0.95 ", True),
        ("reuse>=95%", True),
        ("reuse>97%", False),
        ("wait_ms.p95<300", True),
        ("time.client-setup.ms <= 1.2e1", True),
    ],
)
def test_comparisons(text, holds):
    assert parse(text).check(SUMMARY).holds is holds


@pytest.mark.parametrize("text", ["retries==0", "retries!=0", "retries<=1e9", "wait_ms.jitter>=0"])
def test_unknown_never_passes(text):
    outcome = parse(text).check(SUMMARY)
    assert not outcome.holds
    assert "not known" in outcome.sentence()


def test_a_failure_says_the_actual_value():
    assert parse("connections<=1").check(SUMMARY).sentence() == "assertion failed: connections<=1 (the value is 2)"
    assert parse("connections<=2").check(SUMMARY).sentence() == "assertion holds: connections<=2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "connections",
        "<=2",
        "connections<=",
        "connections=2",
        "connections<=two",
        "connections<=2 and reuse>=1",
        "__import__('os')==1",
        "connections<=2;1",
        "connections<=nan",
        "connections<=inf",
        "connections<=1e999",
        "connections<=" + "1" * 400,
        "Connections<=2",
        "connections<==2",
        "a..b<1",
    ],
)
def test_what_is_no_assertion_is_refused(text):
    with pytest.raises(UsageError) as error:
        parse(text)
    assert error.value.exit_code == 2
    assert len(error.value.message) < 400


def test_a_name_that_is_not_there_is_a_wrong_call():
    with pytest.raises(UsageError, match="no 'conections'") as error:
        parse("conections<=2").check(SUMMARY)
    assert error.value.hint is not None
    assert "connections" in error.value.hint
    with pytest.raises(UsageError) as error:
        parse("zzz<=2").check(SUMMARY)
    assert "wait_ms.p95" in str(error.value.hint)


def test_names_of_a_real_summary():
    known = names(documents.document()["summary"])
    assert {"connections", "reuse", "retries", "wait_ms.p95", "time.server.share"} <= set(known)
    assert not any(name.startswith("by_host") for name in known)


@pytest.mark.fuzz
@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    try:
        assertion = parse(text)
    except UsageError:
        return
    assert assertion.name[0].isalpha() or assertion.name[0] == "_"
