# SPDX-License-Identifier: Apache-2.0
"""The filter that is typed after `/`: the words of the command line, without their dashes where one likes. Pure.

`host api` · `--pid 4711` · `port=443` · `exe python` · `status 5` (5xx) · `error` · `slow 500` (ms) · anything else is
looked for in all that is shown of a line. Words narrow each other down; `!` before a word turns it round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from netdiag.tui.columns import Calls, Texts
from netdiag.tui.model import Row

__all__ = ["Filter", "parse"]

_VALUED = ("host", "pid", "port", "exe", "comm", "status", "slow")
_NUMBERS = ("pid", "port", "slow")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    name: str
    value: str
    turned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is to be shown; without words, everything."""

    text: str = ""
    words: tuple[_Word, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words)

    def row(self, row: Row) -> bool:
        """Tell whether a process and host is shown; words about single requests do not matter here."""
        values = {"host": row.host, "pid": row.pid, "exe": row.program}
        return all(_holds(word, values) != word.turned for word in self.words if word.name not in _OF_CALLS)

    def calls(self, calls: Calls, programs: Mapping[int, str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return a mask of the requests that are shown."""
        mask = np.ones(len(calls), bool)
        for word in self.words:
            mask &= _mask(word, calls, programs) != word.turned
        return mask


_OF_CALLS = ("status", "error", "slow")


def parse(text: str) -> Filter:
    """Return the filter; ValueError says which word is wrong."""
    tokens = re.sub(r"=", " ", text).split()
    words, at = [], 0
    while at < len(tokens):
        token = tokens[at]
        turned = token.startswith("!")
        name = token.lstrip("!").removeprefix("--").lower()
        at += 1
        if name in _VALUED:
            if at >= len(tokens):
                raise ValueError(f"{name} what? write: {name} {'4711' if name in _NUMBERS else 'WORD'}")
            value = tokens[at]
            at += 1
            if name in _NUMBERS and not value.isdecimal():
                raise ValueError(f"{name} takes a number, not {value!r}")
            words.append(_Word(name="exe" if name == "comm" else name, value=value.lower(), turned=turned))
        elif name in {"error", "errors"}:
            words.append(_Word(name="error", value="", turned=turned))
        elif name:
            words.append(_Word(name="", value=token.lstrip("!").lower(), turned=turned))
    return Filter(text=text.strip(), words=tuple(words))


def _holds(word: _Word, values: Mapping[str, object]) -> bool:
    if word.name == "":
        return any(word.value in str(one).lower() for one in values.values() if one is not None)
    if word.name == "pid":
        return str(values["pid"]) == word.value
    if word.name == "port":
        return _port(values["host"]) == word.value
    return word.value in str(values.get(word.name) or "").lower()


def _mask(word: _Word, calls: Calls, programs: Mapping[int, str]) -> Any:
    value = word.value
    tests: dict[str, Callable[[], Any]] = {
        "pid": lambda: calls.pid == int(value),
        "error": lambda: calls.failed == 1,
        "slow": lambda: calls.total_ms >= float(value),
        "status": lambda: _each_number(calls.status, lambda text: text.startswith(value.rstrip("x"))),
        "host": lambda: _each(calls.host, lambda text: value in text),
        "port": lambda: _each(calls.host, lambda text: _port(text) == value),
        "exe": lambda: _each_number(calls.pid, lambda pid: value in programs.get(int(pid), "").lower()),
    }
    if word.name:
        return tests[word.name]()
    numbers = _each_number(calls.status, value.__eq__) | _each_number(calls.pid, value.__eq__)
    return numbers | tests["exe"]() | tests["host"]() | _each(calls.label, lambda text: value in text)


def _each(texts: Texts, test: Callable[[str], bool]) -> Any:
    known = {text: text is not None and test(str(text).lower()) for text in set(texts)}
    return np.array([known[text] for text in texts], bool)


def _each_number(values: Any, test: Callable[[str], bool]) -> Any:
    found, where = np.unique(values, return_inverse=True)
    return np.array([not np.isnan(one) and test(str(int(one))) for one in found], bool)[where]


def _port(host: object) -> str:
    text = str(host or "")
    tail = text.rsplit(":", 1)[-1] if ":" in text else ""
    return tail if tail.isdecimal() else "443"
