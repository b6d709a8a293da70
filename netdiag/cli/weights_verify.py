# SPDX-License-Identifier: Apache-2.0
"""`--verify`: asks before a file is read again, and before its pages leave memory; measures what was allowed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netdiag.findings import Finding

__all__ = ["ask", "verified"]

_MOST = 2
"""Findings that are measured: the ones that come first."""


def ask(question: str) -> bool | None:
    """Return the answer given at the terminal; None where there is no terminal to ask at."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(f"netdiag: {question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def verified(
    findings: Sequence[Finding], allowed: str, largest: str | None, asking: Callable[[str], bool | None] = ask
) -> list[dict[str, Any]]:
    """Return what was measured; `allowed`: ask, read, cold. What is not measured is told, with the reason.

    `largest` is the file of findings that name none, as those about the whole load.
    """
    from netdiag.cli.results import say
    from netdiag.errors import NetdiagError
    from netdiag.weights.verify import plan_for, to_json, verify

    found: list[dict[str, Any]] = []
    able = [(one, plan, path) for one in findings if (plan := plan_for(one.code)) and (path := _file(one) or largest)]
    if not able:
        say("--verify: no finding can be measured by reading a file again")
    for one, plan, path in able[:_MOST]:
        may_read = True if allowed != "ask" else asking(f"read {path} again, four times, to measure {one.code}?")
        if not may_read:
            why = "there is no terminal to ask at; --verify=read allows it" if may_read is None else "you said no"
            say(f"--verify: {path} was not read again: {why}")
            continue
        cold = allowed == "cold"
        if plan.needs_cold and allowed == "ask":
            question = f"may the pages of {path} leave memory for that? Programs that use it get slower meanwhile."
            cold = bool(asking(question))
        if plan.needs_cold and not cold:
            say(f"--verify: waiting shows only where {path} is not in memory; --verify=cold lets its pages leave it")
        try:
            found.append(to_json(verify(one.code, path, cold=cold and plan.needs_cold)))
        except (NetdiagError, OSError) as error:
            say(f"--verify: {error}")
    return found


def _file(one: Finding) -> str | None:
    return next((row.id for row in one.evidence if row.kind == "file" and row.id and row.id.startswith("/")), None)
