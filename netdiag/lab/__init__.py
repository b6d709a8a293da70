# SPDX-License-Identifier: Apache-2.0
"""The lab: a loopback API and clients with known faults, to try, teach and test every finding.

Nothing here is needed to trace; the lab starts processes, so it is a layer above the recorder.
"""

from __future__ import annotations

from netdiag.lab.programs import Programs, prepare
from netdiag.lab.runner import Outcome, run
from netdiag.lab.scenarios import Scenario, load_all, shipped
from netdiag.lab.showcase import demo, list_codes, show

__all__ = ["Outcome", "Programs", "Scenario", "demo", "list_codes", "load_all", "prepare", "run", "shipped", "show"]
