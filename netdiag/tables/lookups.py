# SPDX-License-Identifier: Apache-2.0
"""Look-ups as a program waits for them: all questions that one needed, put together. Pure.

One row of the table of resolutions is one call of the C library or one question on the wire. A program that asks by
itself sends several for one name: for both address families, and with each domain of its search list behind the name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

__all__ = ["LookUp", "Question", "look_ups"]

_NEXT_NS = 5e6
"""A resolver goes on with the next domain, or asks again after a failure, at once."""
_TOGETHER_NS = 50e6
"""Questions for both families leave together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question on the wire with its answer, or a call of the C library. Instants in ns, NaN = never."""

    row: int
    name: str
    qtype: str
    started_ns: float
    ended_ns: float
    answers: tuple[str, ...]
    error: str | None
    server: str | None
    ttl_s: float
    truncated: bool | None
    attempts: float

    @property
    def found(self) -> bool:
        """It brought an address."""
        return bool(self.answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUp:
    """One look-up of a process."""

    row: int
    """Of the first of its rows; of the call, where it was the C library's."""
    pid: float
    name: str
    """As the program named it; where only the wire tells, the shortest of the names that were tried."""
    source: str
    started_ns: float
    ended_ns: float
    """NaN where an answer never came: then the program went on when it had waited long enough."""
    answers: tuple[str, ...]
    error: str | None
    """Why it brought nothing; None where it did, or did not end."""
    questions: tuple[Question, ...]
    """On the wire, by time; empty where none was seen."""

    @property
    def duration_ms(self) -> float:
        """Return from the start to the last answer, NaN where that never came."""
        return (self.ended_ns - self.started_ns) / 1e6

    @property
    def ttl_s(self) -> float:
        """Return for how long the answer could have been kept, NaN = not known."""
        return min((q.ttl_s for q in self.questions if q.found and not math.isnan(q.ttl_s)), default=math.nan)


def look_ups(resolutions: pd.DataFrame) -> list[LookUp]:
    """Return all look-ups by time; reverse ones, which bring no address, are left out."""
    names = ("pid", "name", "qtype", "source", "started_ns", "duration_ms", "answers", "error", "server", "ttl_s",
             "truncated", "attempts", "part_of")  # fmt: skip
    calls: dict[int, tuple[float, Question]] = {}
    parts: dict[int, list[Question]] = {}
    alone: dict[float, list[Question]] = {}
    rows = zip(*(resolutions[name].tolist() for name in names), strict=True)
    for row, (pid, name, qtype, source, started, took, *told, part_of) in enumerate(rows):
        if name is None or qtype == "PTR":
            continue
        one = _question(row, name, qtype, started, took, told)
        if source == "libc":
            calls[row] = (pid, one)
        elif not math.isnan(part_of):
            parts.setdefault(int(part_of), []).append(one)
        else:
            alone.setdefault(-1.0 if math.isnan(pid) else pid, []).append(one)
    found = [_of_call(pid, call, parts.get(row, ())) for row, (pid, call) in calls.items()]
    found += [_of_wire(pid, group) for pid, questions in alone.items() for group in _groups(questions)]
    return sorted(found, key=lambda one: (one.started_ns, one.row))


def _question(row: int, name: str, qtype: str, started: float, took: float, told: Sequence[Any]) -> Question:
    answers, error, server, ttl, truncated, attempts = told
    return Question(
        row=row,
        name=name,
        qtype=qtype,
        started_ns=started,
        ended_ns=started + took * 1e6,
        answers=tuple(answers or ()),
        error=error,
        server=server,
        ttl_s=ttl,
        truncated=truncated,
        attempts=attempts,
    )


def _of_call(pid: float, call: Question, parts: Sequence[Question]) -> LookUp:
    return LookUp(
        row=call.row,
        pid=pid,
        name=call.name,
        source="libc",
        started_ns=call.started_ns,
        ended_ns=call.ended_ns,
        answers=call.answers,
        error=call.error,
        questions=tuple(parts),
    )


def _of_wire(pid: float, group: Sequence[Question]) -> LookUp:
    answers = tuple(dict.fromkeys(answer for question in group for answer in question.answers))
    errors = [question.error for question in group if question.error]
    over = all(not math.isnan(question.ended_ns) or question.error for question in group)
    return LookUp(
        row=group[0].row,
        pid=math.nan if pid < 0 else pid,
        name=min((question.name for question in group), key=len),
        source="wire",
        started_ns=group[0].started_ns,
        ended_ns=max(question.ended_ns for question in group)
        if not any(math.isnan(question.ended_ns) for question in group)
        else math.nan,
        answers=answers,
        error=errors[-1] if errors and not answers and over else None,
        questions=tuple(group),
    )


def _groups(questions: Iterable[Question]) -> list[list[Question]]:
    """Put together the questions of one process that belong to one look-up."""
    groups: list[list[Question]] = []
    for question in questions:
        group = next((group for group in reversed(groups[-8:]) if _continues(group, question)), None)
        if group is None:
            groups.append([question])
        else:
            group.append(question)
    return groups


def _continues(group: Sequence[Question], question: Question) -> bool:
    last = group[-1]
    if question.name == last.name:
        other = question.qtype not in {each.qtype for each in group if each.name == question.name}
        if other and question.started_ns - last.started_ns <= _TOGETHER_NS:
            return True
    if any(each.found for each in group) or question.name.split(".")[0] != last.name.split(".")[0]:
        return False
    ended = max((each.ended_ns for each in group if not math.isnan(each.ended_ns)), default=math.nan)
    return -_NEXT_NS <= question.started_ns - ended <= _NEXT_NS
