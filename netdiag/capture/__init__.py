# SPDX-License-Identifier: Apache-2.0
"""Packets of a capture file → the same streams and facts as a recording of the kernel programs, in memory."""

from __future__ import annotations

from netdiag.capture.limits import Limits
from netdiag.capture.read import Progress, read
from netdiag.capture.source import kind_of
from netdiag.capture.spool import Spool, attached

__all__ = ["Limits", "Progress", "Spool", "attached", "kind_of", "read"]
