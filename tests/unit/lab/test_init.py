# SPDX-License-Identifier: Apache-2.0
"""What the lab offers to commands."""

from __future__ import annotations

from netdiag import lab


def test_all_that_is_promised_is_there():
    assert [name for name in lab.__all__ if not hasattr(lab, name)] == []
