# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.errors import UsageError
from netdiag.lab.name_settings import NameSettings


def test_settings():
    settings = NameSettings.read({"search": ["a.test", "b.test"], "options": "ndots:5"})
    assert settings.resolv_conf() == "nameserver 127.0.0.1\nsearch a.test b.test\noptions ndots:5\n"
    with pytest.raises(UsageError):
        NameSettings.read({"los": 1})
