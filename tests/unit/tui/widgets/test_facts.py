# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.fakes import dashboards


def test_long_texts_are_wrapped_under_themselves():
    lines = dashboards.press("w", "home", "c", size=(60, 40)).splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("TLS"))
    assert lines[at + 1].startswith(" " * 11)
    assert lines[at + 1].strip()
