# SPDX-License-Identifier: Apache-2.0
"""Habits of programs on urllib3."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .plan import Plan, repeat, together

__all__ = ["HABITS"]

urllib3: Any = importlib.import_module("urllib3")
FAILURES = (urllib3.exceptions.HTTPError,)


def manager(plan: Plan) -> Any:
    """Return a pool that keeps `keep` connections and does not verify."""
    return urllib3.PoolManager(maxsize=plan.keep, cert_reqs="CERT_NONE", retries=False, timeout=plan.timeout_s)


def per_call(plan: Plan) -> None:
    """A pool for every call, cleared after it."""

    def call(turn: int) -> None:
        pool = manager(plan)
        pool.request("POST", plan.url(turn), body=plan.body)
        pool.clear()

    repeat(plan, call, FAILURES)


def session(plan: Plan) -> None:
    """One pool."""
    pool = manager(plan)
    repeat(plan, lambda turn: pool.request("POST", plan.url(turn), body=plan.body), FAILURES)


def burst(plan: Plan) -> None:
    """One pool that keeps `keep` connections, used by `burst` threads at once."""
    pool = manager(plan)

    def call(turn: int) -> None:
        together(plan.burst, lambda _n: pool.request("POST", plan.url(turn), body=plan.body))

    repeat(plan, call, FAILURES)


HABITS: dict[str, Callable[[Plan], None]] = {"per_call": per_call, "session": session, "burst": burst}
