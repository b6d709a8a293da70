# SPDX-License-Identifier: Apache-2.0
"""The service's own word on how it does: one request to a page that the user names, never without being asked."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from netdiag.errors import UsageError
from netdiag.text import safe

__all__ = ["Health", "ask"]

_TIMEOUT_S = 10.0
_MOST = 1 << 20
_WORDS = 80


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


def ask(url: str) -> Health:
    """Fetch a status page or `/v1/models` once; UsageError where the URL is none."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"--health {url.partition('?')[0]}: no http or https URL")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    shown = f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - checked
    began, body, status = time.monotonic(), b"", None
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - checked
            status, body = int(answer.status), answer.read(_MOST)
    except urllib.error.HTTPError as error:
        status = error.code
    except (OSError, ValueError):
        status = None
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
