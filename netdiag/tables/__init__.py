# SPDX-License-Identifier: Apache-2.0
"""From a recording to one DataFrame per kind of thing: what everything after the recording is a pure function of."""

from __future__ import annotations

from netdiag.tables.build import build
from netdiag.tables.model import Loss, Tables
from netdiag.tables.schema import COLUMNS

__all__ = ["COLUMNS", "Loss", "Tables", "build"]
