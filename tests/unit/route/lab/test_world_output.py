# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.errors import Unsupported
from netdiag.route.lab.world import output


def test_what_a_command_prints() -> None:
    assert output(["echo", "a"], 60.0) == "a\n"


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(Unsupported, match="exit 3: no"):
        output(["sh", "-c", "echo no >&2; exit 3"], 60.0)


def test_a_command_that_hangs_is_told_and_ended() -> None:
    with pytest.raises(Unsupported, match="not over after 0 s"):
        output(["sleep", "60"], 0.2)
