# SPDX-License-Identifier: Apache-2.0
"""What got slower or faster between two traces, or two groups of calls of one, and whether a gate says no. Pure."""

from __future__ import annotations

from netdiag.compare.document import SCHEMA, build
from netdiag.compare.gate import DEFAULT, Rule, load
from netdiag.compare.samples import SPLITS, Sample, sample, split

__all__ = ["DEFAULT", "SCHEMA", "SPLITS", "Rule", "Sample", "build", "load", "sample", "split"]
