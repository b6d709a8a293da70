# SPDX-License-Identifier: Apache-2.0
"""The header fields that are kept: the one list is `probes/headers.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from functools import cache

from netdiag.assets import data_dir
from netdiag.decode.http.masking import clean_value

__all__ = ["keep", "kept_names", "settle"]

_MOST = 24
"""Fields kept of one head: x-ratelimit-* stands for any number."""


@cache
def kept_names() -> tuple[Mapping[bytes, str], Mapping[bytes, str]]:
    """Return shape by whole name, and shape by beginning of a name."""
    document = tomllib.loads((data_dir("probes") / "headers.toml").read_text(encoding="utf-8"))
    whole, begins = {}, {}
    for each in document["header"]:
        name = each["name"].encode("ascii")
        if name.endswith(b"*"):
            begins[name[:-1]] = each["shape"]
        else:
            whole[name] = each["shape"]
    return whole, begins


@cache
def _names() -> tuple[Mapping[bytes, str], tuple[bytes, ...]]:
    whole, begins = kept_names()
    return whole, tuple(begins)


def settle(into: dict[str, str], fields: Iterable[tuple[bytes, bytes]]) -> None:
    """Turn a Retry-After that is a date into seconds from the Date among the answer's `fields`; without one it stays.

    RFC 9110 section 10.2.3. A Date may be a second old when it is sent: this is the shortest pause that obeys.
    """
    until = into.get("retry-after", "0")
    if until[:1].isdigit():
        return
    now = next((value for name, value in fields if name == b"date"), b"")
    try:
        pause = parsedate_to_datetime(until) - parsedate_to_datetime(now[:64].decode("ascii"))
    except (TypeError, ValueError, OverflowError):
        return
    into["retry-after"] = str(max(int(pause.total_seconds()) - 1, 0))


def keep(into: dict[str, str], name: bytes, value: bytes) -> None:
    """Put a field (lower-case name) into `into`, cleaned, where its name is on the list."""
    whole, begins = _names()
    shape = whole.get(name)
    if shape is None:
        if not name.startswith(begins) or len(name) > 64 or not name.replace(b"-", b"").isalnum():
            return
        shape = next(shape for start, shape in kept_names()[1].items() if name.startswith(start))
    text = clean_value(shape, value)
    if text is not None and len(into) < _MOST:
        into[name.decode("ascii")] = text
