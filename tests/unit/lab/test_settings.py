# SPDX-License-Identifier: Apache-2.0
"""What the server can be told."""

from __future__ import annotations

import pytest

from netdiag.errors import UsageError
from netdiag.lab.settings import ServerSettings, TlsSettings


@pytest.mark.parametrize(("asked", "tls"), [(True, TlsSettings()), ({}, TlsSettings()), (False, None), (None, None)])
def test_tls_is_a_switch_or_a_table(asked, tls):
    assert ServerSettings.read({"tls": asked}).tls == tls


def test_nested_tables_become_settings():
    settings = ServerSettings.read({"tls": {"max": "1.2"}, "answer": {"statuses": [429, 200]}, "routes": {"/a": {}}})
    assert settings.tls == TlsSettings(max="1.2")
    assert settings.answer.statuses == (429, 200)
    assert list(settings.routes) == ["/a"]


def test_one_address_is_a_list_of_one():
    assert ServerSettings.read({"bind": "127.0.0.2"}).bind == ("127.0.0.2",)


@pytest.mark.parametrize("table", [{"sped": 1}, {"answer": {"wait": 1}}, {"tls": {"ticket": True}}])
def test_an_unknown_setting_is_refused(table):
    with pytest.raises(UsageError, match="knows no setting"):
        ServerSettings.read(table)
