# SPDX-License-Identifier: Apache-2.0
"""Habits of programs on `urllib.request`, which cannot keep a connection."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable

from .plan import Plan, repeat, unverified

__all__ = ["HABITS"]


def per_call(plan: Plan) -> None:
    """`urlopen` for every call; it sends `Connection: close` itself."""
    context = unverified() if plan.url(0).startswith("https") else None

    def call(turn: int) -> None:
        request = urllib.request.Request(plan.url(turn), data=plan.body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=plan.timeout_s, context=context) as answer:
            answer.read()

    repeat(plan, call, (OSError,))


HABITS: dict[str, Callable[[Plan], None]] = {"per_call": per_call}
