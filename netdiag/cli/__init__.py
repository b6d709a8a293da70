# SPDX-License-Identifier: Apache-2.0
"""The command line: one module a command; only `main` turns errors into text and an exit status."""

from __future__ import annotations

__all__: list[str] = []
