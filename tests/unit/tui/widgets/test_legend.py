# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.fakes import dashboards


def test_colours_are_named_and_no_name_is_cut():
    assert "reader stall" in dashboards.press("w", size=(160, 20)).splitlines()[-2]
    narrow = dashboards.press("w", size=(50, 20)).splitlines()[-2]
    assert narrow.split()[::2][:2] == ["■", "■"]
    assert set(narrow.split()[1::2]) <= {"look-up", "connect", "set-up", "TLS", "send", "server"}
