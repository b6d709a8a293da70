# SPDX-License-Identifier: Apache-2.0
"""netdiag says which millisecond of an HTTPS or LLM API call went where, why, and what to change."""

__version__ = "0.1.0"
