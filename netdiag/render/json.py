# SPDX-License-Identifier: Apache-2.0
"""The document as JSON: a key a line, and in its lists an event a line, so that it can be searched and compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netdiag.render import Options
from netdiag.values import dumps

__all__ = ["member", "render"]


def render(document: Mapping[str, Any], options: Options) -> str:  # noqa: ARG001 - the one signature of renderers
    """Return the document as one JSON object."""
    members = ",\n".join(f"{dumps(key)}: {member(value)}" for key, value in document.items())
    return f"{{\n{members}\n}}\n"


def member(value: Any) -> str:
    """Return one member's value: an event of a list a line."""
    if not isinstance(value, list) or not value:
        return dumps(value)
    return "[\n" + ",\n".join(f"  {dumps(item)}" for item in value) + "\n]"
