# SPDX-License-Identifier: Apache-2.0
"""Recordings too long for all their rows to be in memory at once: cut into parts, packed, and judged by stretches."""

from __future__ import annotations

from netdiag.bulk.build import Progress, Whole, build
from netdiag.bulk.cut import is_long

__all__ = ["Progress", "Whole", "build", "is_long"]
