# SPDX-License-Identifier: Apache-2.0
"""The front's side of a trace: start CMD and the recorder, hand over, drop privileges, wait, stop."""

from __future__ import annotations

from netdiag.processes import Target
from netdiag.tracing.request import ExitReason, IfUnavailable, Progress, TraceRequest, TraceResult
from netdiag.tracing.session import trace

__all__ = ["ExitReason", "IfUnavailable", "Progress", "Target", "TraceRequest", "TraceResult", "trace"]
