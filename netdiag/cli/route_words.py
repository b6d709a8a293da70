# SPDX-License-Identifier: Apache-2.0
"""Hosts, ports and positions as people write them on a command line."""

from __future__ import annotations

from netdiag.errors import UsageError

__all__ = ["LAST_PORT", "host_and_port", "position"]

LAST_PORT = 65535


def host_and_port(word: str, port: int | None) -> tuple[str, int]:
    """Return host and port of `HOST`, `HOST:PORT`, `[V6]:PORT` or a URL; UsageError says what is wrong."""
    text = word.split("://", 1)[-1].split("/", 1)[0].rpartition("@")[2]
    scheme = word.split("://", 1)[0] if "://" in word else ""
    default = port or (80 if scheme == "http" else 443)
    host, sep, tail = text.rpartition(":")
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        sep, tail = (":", rest[1:]) if rest.startswith(":") else ("", "")
    elif not sep or ":" in host:
        host, sep, tail = text, "", ""
    if sep and not (tail.isascii() and tail.isdigit() and 0 < int(tail) <= LAST_PORT):
        raise UsageError(f"{word}: {tail!r} is no port")
    if not host or any(letter.isspace() or not letter.isprintable() for letter in host) or len(host) > 253:
        raise UsageError(f"{word!r} names no host")
    return host, int(tail) if sep else default


def position(text: str | None) -> tuple[float | None, float | None]:
    """Return latitude and longitude of `52.5,13.4`; UsageError says what is wrong."""
    if text is None:
        return None, None
    try:
        latitude, longitude = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--vantage {text}: write latitude,longitude in degrees, as 52.5,13.4") from None
    if not (abs(latitude) <= 90 and abs(longitude) <= 180):
        raise UsageError(f"--vantage {text}: out of range")
    return latitude, longitude
