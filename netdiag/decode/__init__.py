# SPDX-License-Identifier: Apache-2.0
"""Parsers of what passes on the wire: bytes in, facts out. Pure, bounded, never hurt by foreign bytes.

This package imports nothing by itself: each parser is loaded by those who need it.
"""

from __future__ import annotations

__all__: list[str] = []
