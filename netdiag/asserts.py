# SPDX-License-Identifier: Apache-2.0
"""Assertions over the summary, as `--assert` takes them: `connections<=2`, `wait_ms.p95 < 300`, `reuse >= 0.95`.

One comparison of a name with a number. No evaluation of anything else: the text is matched, never executed.
A value that is not known fails the assertion: silence is not proof.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netdiag.errors import UsageError

__all__ = ["Assertion", "Outcome", "names", "parse"]

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_EXPRESSION = re.compile(
    r"\s*(?P<name>[a-z_][a-z0-9_]*(?:\.[a-z0-9_-]+)*)\s*(?P<sign><=|>=|==|!=|<|>|=)\s*(?P<number>\S+)\s*",
    re.ASCII,
)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?(?P<percent>%?)", re.ASCII)
_MAX_TEXT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one assertion ended."""

    text: str
    """The assertion as it was given."""
    holds: bool
    actual: float | None
    """The value in the summary; None = not known, which never holds."""

    def sentence(self) -> str:
        """Return what to tell the user, with the actual value."""
        if self.holds:
            return f"assertion holds: {self.text}"
        actual = "the value is not known" if self.actual is None else f"the value is {self.actual:g}"
        return f"assertion failed: {self.text} ({actual})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """A name in the summary, a comparison and a number."""

    text: str
    name: str
    """Dotted: `wait_ms.p95`, `time.server.ms`."""
    sign: str
    number: float

    def check_name(self, known: Iterable[str]) -> None:
        """Raise UsageError when the name is none of those of a summary."""
        if self.name not in known:
            raise _no_such_name(self, sorted(known))

    def check(self, summary: Mapping[str, Any]) -> Outcome:
        """Compare with the value in `summary`; UsageError when the summary has no such name."""
        known = dict(_values(summary))
        self.check_name(known)
        actual = known[self.name]
        holds = actual is not None and _COMPARISONS[self.sign](actual, self.number)
        return Outcome(text=self.text, holds=holds, actual=actual)


def parse(text: str) -> Assertion:
    """Read one assertion; UsageError says what is wrong with it and how one looks."""
    found = _EXPRESSION.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if found is None:
        raise _unreadable(text, "it is not NAME, a comparison and a number")
    if found["sign"] == "=":
        raise _unreadable(text, "a comparison is one of <= >= == != < >")
    number = _NUMBER.fullmatch(found["number"])
    if number is None:
        raise _unreadable(text, f"{found['number']!r} is not a number")
    value = float(found["number"].removesuffix("%"))
    if not math.isfinite(value):
        raise _unreadable(text, f"{found['number']!r} is too large")
    return Assertion(
        text=text.strip(),
        name=found["name"],
        sign=found["sign"],
        number=value / 100 if number["percent"] else value,
    )


def names(summary: Mapping[str, Any]) -> list[str]:
    """Return every name that an assertion can use on this summary."""
    return sorted(name for name, _ in _values(summary))


def _unreadable(text: str, why: str) -> UsageError:
    shown = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
    return UsageError(f"--assert {shown!r}: {why}", hint="for example --assert 'connections<=2' --assert 'reuse>=0.95'")


def _no_such_name(assertion: Assertion, known: Sequence[str]) -> UsageError:
    close = difflib.get_close_matches(assertion.name, known, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"names are {', '.join(known)}"
    return UsageError(f"--assert {assertion.text!r}: the summary has no {assertion.name!r}", hint=hint)


def _values(summary: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield dotted names and numbers; the parts of `time` go by the name of the part."""
    for key, value in summary.items():
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            yield f"{prefix}{key}", value
        elif isinstance(value, Mapping):
            yield from _values(value, f"{prefix}{key}.")
        elif key == "time":
            for part in value:
                own = {name: number for name, number in part.items() if name != "part"}
                yield from _values(own, f"{prefix}time.{part['part']}.")
