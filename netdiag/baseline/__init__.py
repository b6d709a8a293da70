# SPDX-License-Identifier: Apache-2.0
"""What calls of a scenario usually take, grown by each trace that is to be remembered."""

from __future__ import annotations

from netdiag.baseline.figures import DIMENSIONS, Figures, Scenario, learn
from netdiag.baseline.store import Store, open_store

__all__ = ["DIMENSIONS", "Figures", "Scenario", "Store", "learn", "open_store"]
