# SPDX-License-Identifier: Apache-2.0
"""The service's own word on how it does: one request to a page that the user names, never without being asked."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netdiag import web
from netdiag.errors import UsageError
from netdiag.summary import percentile
from netdiag.text import safe

__all__ = ["Health", "Polled", "ask", "poll"]

_TIMEOUT_S = 10.0
_MOST = 1 << 20
_WORDS = 80
_ERROR = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What came back."""

    url: str
    """Without user, password and query."""
    status: int | None
    """None: nothing came back."""
    ms: float
    says: str | None
    """A status page's own sentence, or how many models are listed; None where the answer has neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """What came back of several asks."""

    last: Health
    asked: int
    failed: int
    """Of them, how many got no answer, or one that is an error."""
    p50_ms: float | None
    """Of the answers; None without any."""
    slowest_ms: float | None


def poll(url: str, times: int, every_s: float, pause: Callable[[float], object] = time.sleep) -> Polled:
    """Ask several times, so many seconds apart; what came so far where somebody interrupts. UsageError as `ask`."""
    found = [ask(url)]
    with contextlib.suppress(KeyboardInterrupt):
        while len(found) < times:
            pause(every_s)
            found.append(ask(url))
    took = sorted(one.ms for one in found if not _is_error(one))
    return Polled(
        last=found[-1],
        asked=len(found),
        failed=len(found) - len(took),
        p50_ms=percentile(took, 0.5) if took else None,
        slowest_ms=took[-1] if took else None,
    )


def _is_error(one: Health) -> bool:
    return one.status is None or one.status >= _ERROR


def ask(url: str) -> Health:
    """Fetch a status page or `/v1/models` once; UsageError where the URL is none."""
    try:
        shown = f"{web.origin(url)}{web.parts_of(url).path}"
    except ValueError as error:
        raise UsageError(f"--health: {error}", hint="--health https://status.example.com/api/v2/status.json") from error
    began, body, status = time.monotonic(), b"", None
    with contextlib.suppress(OSError):  # no answer is an answer, too
        status, body = web.ask(url, timeout_s=_TIMEOUT_S, most=_MOST, headers={"Accept": "application/json"})
    return Health(url=shown, status=status, ms=(time.monotonic() - began) * 1e3, says=_says(body))


def _says(body: bytes) -> str | None:
    try:
        content: Any = json.loads(body)
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    status, models = content.get("status"), content.get("data")
    if isinstance(status, dict):
        status = status.get("description") or status.get("indicator")
    if isinstance(status, str):
        return safe(status, _WORDS)
    return f"{len(models)} models" if isinstance(models, list) else None
