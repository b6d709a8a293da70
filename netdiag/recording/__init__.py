# SPDX-License-Identifier: Apache-2.0
"""The recording: one append-only file with what the kernel said, and the layout to read it with.

This package imports nothing by itself, because the writer lives in the process that may import the standard library only.
"""

from __future__ import annotations

__all__: list[str] = []
