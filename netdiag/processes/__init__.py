# SPDX-License-Identifier: Apache-2.0
"""Which processes are meant, where they run, and how their command lines are shown."""

from __future__ import annotations

from netdiag.processes.masking import mask_argv
from netdiag.processes.placement import Placement, placement
from netdiag.processes.target import Target, cgroup2_mount, open_pid, resolve

__all__ = ["Placement", "Target", "cgroup2_mount", "mask_argv", "open_pid", "placement", "resolve"]
