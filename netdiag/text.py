# SPDX-License-Identifier: Apache-2.0
"""Foreign text made safe for a terminal, and measured in cells.

Names of programs, hosts and files come from whoever made them: they may hold escape sequences, line breaks, or
marks that turn the direction of writing.
"""

from __future__ import annotations

import unicodedata

__all__ = ["cells", "cut", "cut_middle", "fit", "safe"]

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (direction and zero-width marks), surrogate, private, unassigned, line and paragraph separators."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MAX_COMBINING = 2
"""Marks on one letter; more of them run over the neighbouring lines."""
_ELLIPSIS = "…"


def safe(text: str | bytes, width: int | None = None) -> str:
    r"""Return text that shows what it is: control characters become escapes such as `\x1b`; cut to `width` cells."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    pieces, combining = [], 0
    for char in text:
        combining = combining + 1 if unicodedata.combining(char) else 0
        hidden = unicodedata.category(char) in _ESCAPED or combining > _MAX_COMBINING
        pieces.append(_escape(char) if hidden else char)
    whole = "".join(pieces)
    return whole if width is None else cut(whole, width)


def cells(text: str) -> int:
    """Return how many terminal cells the text takes: wide characters two, combining marks none."""
    return len(text) if text.isascii() else sum(_cells_of(char) for char in text)


def cut(text: str, width: int) -> str:
    """Return the text in at most `width` cells, with `…` as its end when something was left out."""
    if cells(text) <= width:
        return text
    kept, left = [], width - 1
    for char in text:
        left -= _cells_of(char)
        if left < 0:
            break
        kept.append(char)
    return ("".join(kept) + _ELLIPSIS) if width > 0 else ""


def cut_middle(text: str, width: int, *, tail: int) -> str:
    """Return the text in at most `width` cells; of a longer one the start and at least its last `tail` letters."""
    if cells(text) <= width:
        return text
    end = text[-tail:]
    return cut(text[:-tail], max(0, width - cells(end))) + end


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return the text in exactly `width` cells: cut, or filled with blanks at the right (or left, for numbers)."""
    short = cut(text, width)
    blanks = " " * (width - cells(short))
    return blanks + short if right else short + blanks


def _cells_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
