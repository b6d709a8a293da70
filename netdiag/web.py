# SPDX-License-Identifier: Apache-2.0
"""One HTTP request to a URL that the user named: nobody else is asked, so no redirect is followed."""

from __future__ import annotations

import base64
import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

__all__ = ["ask", "origin", "parts_of"]

_SCHEMES = frozenset({"http", "https"})


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nothing: another host was not named by the user."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


def parts_of(url: str) -> SplitResult:
    """Return the parts of an http or https URL; ValueError says why it is none."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError("no http or https URL")
    if parts.port == 0:  # reading it raises ValueError over 65535
        raise ValueError("port 0")
    rest = parts.path + parts.query
    if not (rest.isascii() and all(letter.isprintable() and letter != " " for letter in rest)):
        raise ValueError("a path or query with letters that have to be written as %XX")
    return parts


def origin(url: str) -> str:
    """Return scheme, host and port, to name a URL by: user, path and query may hold secrets. ValueError as above."""
    parts = parts_of(url)
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"


def ask(
    url: str, *, timeout_s: float, most: int, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Return status and at most so many bytes of a 2xx answer, none of others; POST with a body, else GET.

    User and password of the URL go as Basic authorization. ValueError: no URL. OSError: no answer of HTTP.
    """
    parts, sent = parts_of(url), dict(headers or {})
    user = parts.netloc.rpartition("@")[0]
    if user:
        sent["Authorization"] = f"Basic {base64.b64encode(unquote_to_bytes(user)).decode()}"
    bare = f"{origin(url)}{parts.path}{f'?{parts.query}' if parts.query else ''}"
    request = urllib.request.Request(bare, body, sent)  # noqa: S310 - its scheme was checked
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=timeout_s) as answer:
            return int(answer.status), answer.read(most)
    except urllib.error.HTTPError as error:
        error.close()  # it is the answer, with its connection
        return error.code, b""
    except http.client.HTTPException as error:
        raise OSError(f"no answer of HTTP ({type(error).__name__})") from error
