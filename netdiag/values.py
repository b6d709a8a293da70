# SPDX-License-Identifier: Apache-2.0
"""Cells of tables and members of facts as JSON values: unknown is None; what JSON cannot say does not get through."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from numbers import Real
from typing import Any, TypeAlias

__all__ = [
    "Convert",
    "clean",
    "clean_list",
    "dumps",
    "instants",
    "is_unknown",
    "rfc3339",
    "to_bool",
    "to_int",
    "to_list",
    "to_mapping",
    "to_ms",
    "to_object",
    "to_object_or_empty",
    "to_text",
    "to_texts",
]

Convert: TypeAlias = Callable[[Any], Any]
"""From a cell to a JSON value."""

_BOOLS = ("bool", "bool_")
"""Of Python and of NumPy, which is not loaded for it."""
_NS_PER_S = 1_000_000_000
_LAST_NS = 253_402_300_799 * _NS_PER_S
"""The last second of the year 9999; a forged clock can say anything."""


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def rfc3339(realtime_ns: int) -> str:
    """Return an instant given in nanoseconds since 1970 as RFC 3339 in UTC with nine digits."""
    seconds, nanoseconds = divmod(min(max(realtime_ns, 0), _LAST_NS), _NS_PER_S)
    return f"{_second(seconds)}.{nanoseconds:09d}Z"


def instants(base_ns: int) -> Convert:
    """Return the conversion of nanoseconds since the start of the recording into an instant."""

    def convert(value: Any) -> str | None:
        return rfc3339(base_ns + round(value)) if _is_number(value) else None

    return convert


def is_unknown(value: Any) -> bool:
    """Tell whether a cell holds nothing: None, NaN, NA or an infinity."""
    if value is None or isinstance(value, float):
        return value is None or not math.isfinite(value)
    return type(value).__name__ == "NAType"  # pandas.NA, without loading pandas where there is none


def _is_number(value: Any) -> bool:
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind is int or value is None:
        return kind is int
    return isinstance(value, Real) and not is_unknown(value)


def to_text(value: Any) -> str | None:
    r"""Return text that any JSON reader accepts: what was not UTF-8 is shown as `\\xff`."""
    if is_unknown(value):
        return None
    text = str(value)
    if text.isascii():
        return text
    if not _lone(text):
        return text
    shown = "".join(f"\\u{ord(letter):04x}" if _lone(letter) and not _byte(letter) else letter for letter in text)
    return shown.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _lone(text: str) -> bool:
    """Tell whether there is half a surrogate pair: no encoding has it."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _byte(letter: str) -> bool:
    """Tell whether the half stands for a byte that was not UTF-8, as Python reads file names."""
    return "\udc80" <= letter <= "\udcff"


def to_int(value: Any) -> int | None:
    """Return a whole number, None where unknown."""
    return int(value) if _is_number(value) else None


def to_ms(value: Any) -> float | None:
    """Return milliseconds to the nanosecond, None where unknown."""
    return round(float(value), 6) if _is_number(value) else None


def to_bool(value: Any) -> bool | None:
    """Return true or false, None where unknown."""
    return bool(value) if type(value).__name__ in _BOOLS or _is_number(value) else None


def to_texts(value: Any) -> list[str] | None:
    """Return a list of texts, None where the cell holds no list."""
    if isinstance(value, list | tuple):
        return [text for text in map(to_text, value) if text is not None]
    return None


def to_list(value: Any) -> list[str]:
    """Return a list of texts, empty where the cell holds none."""
    return to_texts(value) or []


def to_object(value: Any) -> dict[str, Any] | None:
    """Return a JSON object, None where the cell holds none."""
    return clean(dict(value)) if isinstance(value, Mapping) else None


def to_object_or_empty(value: Any) -> dict[str, Any]:
    """Return a JSON object, an empty one where the cell holds none."""
    return to_object(value) or {}


def to_mapping(value: Any) -> Mapping[str, Any]:
    """Return the value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def clean(value: Any) -> Any:
    """Return a JSON value with only what JSON can say: no NaN, no lone surrogate, no tuple, no foreign type."""
    if isinstance(value, Mapping):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return to_text(value)


def clean_list(value: Any) -> list[Any]:
    """Return a list of JSON values, empty where the cell holds none."""
    return clean(list(value)) if isinstance(value, list | tuple) else []


_UNPRINTABLE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Letters that JSON allows in the clear and a terminal obeys, or that turn the order of what stands beside them."""


def dumps(value: Any) -> str:
    """Return one JSON value on one line: UTF-8, never NaN, nothing that a terminal would obey."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
    return _UNPRINTABLE.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text)
