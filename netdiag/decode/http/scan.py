# SPDX-License-Identifier: Apache-2.0
"""Reads JSON that may be cut anywhere: the values of leaves with the keys that lead to them. One pass, bounded.

It checks nothing that its users do not need: of a text that is no JSON come leaves or none, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

__all__ = ["leaves", "top_of_tail", "whole_number"]

_TOKEN = re.compile(
    rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)("|\\?\Z)|([{}\[\],:])|([^\s"{}\[\],:]++)',
    re.DOTALL,
)
_MAX_DEPTH, _MAX_TOKENS, _MAX_PATH = 32, 20_000, 160
_KEY = re.compile(rb'(?<!\\)"[A-Za-z_]{1,40}"\s*:')
_MOST_KEYS = 64


def leaves(data: bytes) -> Iterator[tuple[bytes, bytes, bool]]:  # noqa: C901, PLR0912 - one pass over tokens, for speed
    """Yield path (keys joined by dots, lists left out), raw value and whether it is a text.

    A text comes without its quotes and with its escapes; one that is cut comes as far as it goes. Other values come as
    they stand (`12`, `true`). What opens an object or a list comes as `{` or `[`, no text.
    """
    stack: list[tuple[bytes, bool]] = []
    prefix, key, in_object, wants_key = b"", b"", False, False
    for token in islice(_TOKEN.finditer(data), _MAX_TOKENS):
        kind = token.lastindex
        if kind == 2:
            if wants_key:
                key, wants_key = token[1], False
            else:
                yield prefix + key, token[1], True
        elif kind == 4:
            if not wants_key:
                yield prefix + key, token[4], False
        else:
            mark = token[3]
            if mark == b":":
                continue
            if mark in b"{[":
                if len(stack) >= _MAX_DEPTH:
                    return
                path = prefix + key
                yield path, mark, False
                stack.append((prefix, in_object))
                if mark == b"{":
                    prefix = path + b"." if path and len(path) < _MAX_PATH else path
                    in_object = wants_key = True
                    key = b""
                else:
                    prefix, key, in_object, wants_key = path, b"", False, False
            elif mark in b"}]":
                if not stack:
                    return
                prefix, in_object = stack.pop()
                key, wants_key = b"", False
            elif mark == b",":
                wants_key = in_object
                if in_object:
                    key = b""


def top_of_tail(tail: bytes) -> bytes:
    """Return the end of a JSON object from its first whole key at the top on, as an object; empty where there is none.

    `tail` is how the object ends. In a text of JSON a quote is escaped, so `"name":` is a key wherever it stands; that
    it is one of the top says what closes after it.
    """
    if not tail.rstrip().endswith(b"}"):
        return b""
    for count, found in enumerate(_KEY.finditer(tail)):
        if count >= _MOST_KEYS:
            return b""
        rest = tail[found.start() :]
        if _closes_one(rest):
            return b"{" + rest
    return b""


def _closes_one(data: bytes) -> bool:
    """Tell whether the text closes one more object than it opens, and that at its end."""
    depth = 0
    for count, token in enumerate(_TOKEN.finditer(data)):
        mark = token[3]
        if depth < 0 or count > _MAX_TOKENS:
            return False
        if mark is not None:
            depth += (mark in b"{[") - (mark in b"}]")
    return depth == -1


def whole_number(raw: bytes) -> int | None:
    """Return a number of tokens, up to 2^31; None for anything else."""
    return int(raw) if 0 < len(raw) <= 10 and raw.isdigit() and int(raw) < 1 << 31 else None
