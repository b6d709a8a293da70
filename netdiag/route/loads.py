# SPDX-License-Identifier: Apache-2.0
"""Load of points of presence as their operator tells it: a file or a URL, JSON or lines of `NAME PERCENT`.

It cannot be seen from outside. A URL is fetched only because the user gave it, as it is, following no redirect.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from netdiag import web
from netdiag.errors import InputUnreadable

__all__ = ["parse", "read"]

_MOST_BYTES = 1 << 20
_MOST_PERCENT = 1000.0
_TIMEOUT_S = 5.0


def read(source: str) -> dict[str, float]:
    """Return load in per cent by address or place; InputUnreadable says what is wrong."""
    try:
        if source.startswith(("http://", "https://")):
            status, data = web.ask(source, timeout_s=_TIMEOUT_S, most=_MOST_BYTES + 1)
            if not 200 <= status < 300:
                raise InputUnreadable(f"--load {_shown(source)}: status {status}")
        else:
            data = Path(source).read_bytes()
    except (OSError, ValueError) as error:
        raise InputUnreadable(f"--load {_shown(source)}: {error}") from error
    if len(data) > _MOST_BYTES:
        raise InputUnreadable(f"--load {_shown(source)}: over {_MOST_BYTES} bytes")
    try:
        return parse(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputUnreadable(f"--load {_shown(source)}: not UTF-8 at byte {error.start}") from error
    except InputUnreadable as error:
        raise InputUnreadable(f"--load {_shown(source)}: {error.message}") from error


def _shown(source: str) -> str:
    """Return a source to name in a message: of a URL the host alone, the rest may hold secrets."""
    if "://" not in source:
        return source
    try:
        return f"{web.origin(source)}/…"
    except ValueError:
        return "URL"


def parse(text: str) -> dict[str, float]:
    """Return what a text says: an object of numbers, or a line per place; a share is no per cent and not guessed."""
    if text.lstrip().startswith("{"):
        try:
            table = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputUnreadable("not JSON") from error
        return {str(key): _percent(value, str(key)) for key, value in _object(table).items()}
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise InputUnreadable(f"line {number}: expected a name and a number")
        try:
            found[words[0]] = _percent(float(words[1].rstrip("%")), words[0])
        except ValueError as error:
            raise InputUnreadable(f"line {number}: expected a number") from error
    return found


def _object(table: object) -> Mapping[str, object]:
    if not isinstance(table, Mapping):
        raise InputUnreadable("expected an object of numbers")
    return table


def _percent(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputUnreadable(f"{name}: expected a number")
    if not 0 <= value <= _MOST_PERCENT:
        raise InputUnreadable(f"{name}: {value} is no load in per cent")
    return float(value)
