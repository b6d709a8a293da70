# SPDX-License-Identifier: Apache-2.0
"""Lines of a terminal: widths in cells, wrapping under a label, colour by meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from netdiag.text import cells, cut, fit

__all__ = ["LABEL_CELLS", "Paper", "whole_words", "wrap"]

LABEL_CELLS = 9
"""Width of the column of labels, the space after it included."""

_STYLES = {
    "critical": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "info": "\x1b[36m",
    "good": "\x1b[32m",
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
}
_RESET = "\x1b[0m"


def wrap(text: str, width: int) -> Iterator[str]:
    """Yield lines of at most `width` cells, broken between words; a longer word is broken anywhere."""
    line = ""
    for word in text.split():
        candidate = f"{line} {word}" if line else word
        if cells(candidate) <= width:
            line = candidate
            continue
        if line:
            yield line
        *whole, line = _pieces(word, width)
        yield from whole
    if line:
        yield line


def whole_words(text: str, width: int) -> str:
    """Return the text in at most `width` cells, cut between words where half of it remains: `python app.py …`."""
    if cells(text) <= width:
        return text
    kept = ""
    for word in text.split(" "):
        longer = f"{kept} {word}" if kept else word
        if cells(longer) + 2 > width:
            break
        kept = longer
    return f"{kept} …" if 2 * cells(kept) > width else cut(text, width)


def _pieces(word: str, width: int) -> list[str]:
    pieces, piece, used = [], "", 0
    for letter in word:
        if used + cells(letter) > width:
            pieces.append(piece)
            piece, used = "", 0
        piece += letter
        used += cells(letter)
    return [*pieces, piece]


class Paper:
    """Collects the lines of a report; text that it gets is already safe to print."""

    def __init__(self, *, width: int, color: bool) -> None:
        self.width = width
        self._color = color
        self._lines: list[str] = []

    def paint(self, text: str, style: str) -> str:
        """Return the text in a style, or as it is where colour is off."""
        return f"{_STYLES[style]}{text}{_RESET}" if self._color and text else text

    def line(self, text: str = "", style: str | None = None) -> None:
        """Add one line, cut to the width."""
        text = cut(text, self.width).rstrip()
        self._lines.append(self.paint(text, style) if style else text)

    def labelled(self, label: str, text: str, *, indent: int = 0, style: str = "dim") -> None:
        """Add a label and beside it the text, wrapped under itself."""
        head = fit(" " * indent + label, LABEL_CELLS)
        for row, part in enumerate(wrap(text, self.width - LABEL_CELLS)):
            left = self.paint(head, style) if row == 0 else " " * LABEL_CELLS
            self._lines.append(f"{left}{part}".rstrip())

    def listed(self, label: str, parts: Iterable[str], *, indent: int = 0, style: str = "dim") -> None:
        """Add a label and beside it the parts with dots between; a line breaks between parts where it can."""
        line, lines = "", []
        for part in parts:
            longer = f"{line} · {part}" if line else part
            if line and cells(longer) > self.width - LABEL_CELLS:
                lines.append(line)
                longer = part
            line = longer
        for row, text in enumerate([*lines, line]):
            self.labelled("" if row else label, text, indent=indent, style=style)

    def verbatim(self, text: str) -> None:
        """Add lines of code under the text of a label, neither wrapped nor cut: they are there to be copied."""
        self._lines.extend(f"{' ' * (LABEL_CELLS + 2)}{line}".rstrip() for line in text.splitlines())

    def text(self) -> str:
        """Return all lines."""
        return "".join(f"{line}\n" for line in self._lines)
