# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import date, datetime

import pytest

from netdiag import config
from netdiag.errors import InputUnreadable, UsageError
from tests.fakes.documents import finding

ENTRY = {"code": "reuse.client-per-call", "reason": "two calls a day", "expires": date(2027, 1, 31)}
TODAY = date(2026, 12, 1)


def test_an_accepted_finding_is_set_aside_with_its_reason():
    (ignore,) = config.parse({"ignore": [ENTRY]}, "netdiag.toml")
    other = finding(code="tcp.refused")
    reported, ignored = config.split([finding(), other], [ignore], TODAY)
    assert reported == [other]
    assert ignored == [
        {
            "code": "reuse.client-per-call",
            "cause": None,
            "severity": "warning",
            "reason": "two calls a day",
            "expires": "2027-01-31",
        }
    ]


def test_it_comes_back_on_the_day_of_expiry():
    ignores = config.parse({"ignore": [ENTRY]}, "netdiag.toml")
    assert config.split([finding()], ignores, date(2027, 1, 30))[0] == []
    assert config.split([finding()], ignores, date(2027, 1, 31))[0] == [finding()]


def test_a_cause_narrows_it():
    ignores = config.parse({"ignore": [{**ENTRY, "cause": "always"}]}, "netdiag.toml")
    assert len(config.split([finding(cause="always"), finding(cause="expired")], ignores, TODAY)[0]) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"ignored": []}, "unknown key 'ignored'"),
        ({"ignore": {}}, "not a list"),
        ({"ignore": ["x"]}, "entry 1 is not a table"),
        ({"ignore": [ENTRY, {**ENTRY, "until": 1}]}, "entry 2: unknown key 'until'"),
        ({"ignore": [{**ENTRY, "reason": " "}]}, "needs 'reason'"),
        ({"ignore": [{"code": "a", "reason": "b"}]}, "needs 'expires'"),
        ({"ignore": [{**ENTRY, "expires": datetime(2027, 1, 1)}]}, "needs 'expires'"),  # noqa: DTZ001 - as TOML gives it
        ({"ignore": [{**ENTRY, "code": 3}]}, "needs 'code'"),
    ],
)
def test_what_is_wrong_is_said(content, says):
    with pytest.raises(UsageError, match=says):
        config.parse(content, "netdiag.toml")


def test_a_file_is_read(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[[ignore]]\ncode = "a.b"\nreason = "c"\nexpires = 2027-01-31\n')
    assert config.load(path)[0].code == "a.b"


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InputUnreadable, match="No such file"):
        config.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[[ignore]\n")
    with pytest.raises(InputUnreadable, match="is not TOML"):
        config.load(tmp_path / "bad.toml")


@pytest.mark.parametrize(("uid", "found"), [(0, 0), (1000, 1)])
def test_root_never_reads_the_working_directory(tmp_path, monkeypatch, uid, found):
    (tmp_path / "netdiag.toml").write_text('[[ignore]]\ncode = "a.b"\nreason = "c"\nexpires = 2027-01-31\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "effective_uid", lambda: uid)
    assert len(config.load(None)) == found


def test_no_file_no_ignores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "effective_uid", lambda: 1000)
    assert config.load(None) == ()
