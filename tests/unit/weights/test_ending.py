# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.errors import UsageError
from netdiag.weights.ending import checked


@pytest.mark.parametrize("wanted", ["ready", "http://127.0.0.1:8000/health", "https://localhost/"])
def test_what_needs_no_command(wanted: str) -> None:
    assert checked(wanted, command=False) == wanted


def test_a_pattern_needs_a_command_and_has_to_be_one() -> None:
    assert checked("Uvicorn running", command=True) == "Uvicorn running"
    with pytest.raises(UsageError, match="command"):
        checked("Uvicorn running", command=False)
    with pytest.raises(UsageError, match="no regular expression"):
        checked("(", command=True)
