# SPDX-License-Identifier: Apache-2.0
"""The recording: one append-only file with what the kernel said, and the layout to read it with.

This package imports nothing by itself, because the writer lives in a process that imports the standard
library only.
"""

from __future__ import annotations

__all__: list[str] = []
