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
_LONGEST_NUMBER = 10
"""Digits of a pause; more are no pause."""


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
    """Tell Retry-After as seconds, the shortest pause that obeys; leave it out where the answer contradicts itself.

    A date counts from the answer's own Date, without which it stays (RFC 9110 section 10.2.3); a Date may be a second
    old when it is sent. `retry-after-ms`, which SDKs of LLM APIs read first, is no field whose value is kept: where it
    asks for less than Retry-After, the pause that a client must make is not known.
    """
    told = dict(fields)
    until = into.get("retry-after", "0")
    if not until[:1].isdigit():
        _since(into, until, told.get(b"date", b""))
    exact = _number(clean_value("number", told.get(b"retry-after-ms", b"")))
    asked = _number(into.get("retry-after"))
    if exact is not None and (asked is None or exact < 1e3 * asked):
        into.pop("retry-after", None)


def _number(text: str | None) -> float | None:
    plain = text is not None and text.isascii() and text.replace(".", "", 1).isdigit() and len(text) <= _LONGEST_NUMBER
    return float(text) if plain and text is not None else None


def _since(into: dict[str, str], until: str, now: bytes) -> None:
    """Replace the date `until` by seconds from the date `now` on, where both are dates."""
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
