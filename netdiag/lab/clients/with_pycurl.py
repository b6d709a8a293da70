# SPDX-License-Identifier: Apache-2.0
"""Habits of programs on pycurl."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .plan import Plan, repeat

__all__ = ["HABITS"]

pycurl: Any = importlib.import_module("pycurl")
FAILURES = (pycurl.error,)


def handle_of(plan: Plan) -> Any:
    """Return an easy handle that posts the plan's body and drops the answer."""
    handle = pycurl.Curl()
    handle.setopt(pycurl.SSL_VERIFYPEER, 0)
    handle.setopt(pycurl.SSL_VERIFYHOST, 0)
    handle.setopt(pycurl.POSTFIELDS, plan.body)
    handle.setopt(pycurl.HTTPHEADER, ["Content-Type: application/json"])
    handle.setopt(pycurl.WRITEFUNCTION, len)
    handle.setopt(pycurl.TIMEOUT_MS, int(plan.timeout_s * 1000))
    return handle


def post(plan: Plan, handle: Any, turn: int) -> None:
    """Post once."""
    handle.setopt(pycurl.URL, plan.url(turn))
    handle.perform()


def session(plan: Plan) -> None:
    """One handle for all calls; a body over a megabyte waits for `100 Continue`."""
    handle = handle_of(plan)
    repeat(plan, lambda turn: post(plan, handle, turn), FAILURES)
    handle.close()


def per_call(plan: Plan) -> None:
    """A handle for every call."""

    def call(turn: int) -> None:
        handle = handle_of(plan)
        try:
            post(plan, handle, turn)
        finally:
            handle.close()

    repeat(plan, call, FAILURES)


HABITS: dict[str, Callable[[Plan], None]] = {"session": session, "per_call": per_call, "async_stream": session}
