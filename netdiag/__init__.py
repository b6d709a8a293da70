# SPDX-License-Identifier: Apache-2.0
"""netdiag says which millisecond of an HTTPS or LLM API call went where, why, and what to change.

`netdiag.load(path)` gives the tables and findings of a recording or capture.
"""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Return `load`, imported when it is asked for: the recorder imports this module and must stay small."""
    if name != "load":
        raise AttributeError(f"module 'netdiag' has no attribute {name!r}")
    from importlib import import_module

    return import_module("netdiag.loading").load
