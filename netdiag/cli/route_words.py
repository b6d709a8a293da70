# SPDX-License-Identifier: Apache-2.0
"""Hosts, ports and positions as people write them on a command line."""

from __future__ import annotations

import ipaddress
import re

from netdiag.errors import UsageError

__all__ = ["LAST_PORT", "host_and_port", "position"]

LAST_PORT = 65535

_PORT_DIGITS = 5
_LONGEST_NAME, _LONGEST_LABEL = 253, 63
"""Of a name in DNS, as text without the last dot (RFC 1035)."""
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?")
"""Underscores are no letters of hosts, but some have them."""
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]*")
_BROADCAST = 2**32 - 1
_MOST_SHOWN = 80


def host_and_port(word: str, port: int | None) -> tuple[str, int]:
    """Return host and port of `HOST`, `HOST:PORT`, `[V6]:PORT` or a URL; UsageError says what is wrong.

    Addresses come back in their usual form. A name is one that DNS can hold: nothing has to be sent to find out that
    another one does not exist. No message repeats what stands beside the host in a URL.
    """
    scheme, _, rest = word.rpartition("://")
    text = re.split(r"[/?#\\]", rest, maxsplit=1)[0].rpartition("@")[2]
    default = port or (80 if scheme.lower() == "http" else 443)
    host, sep, tail = text.rpartition(":")
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or ":" not in host or (rest and not rest.startswith(":")):
            raise UsageError(f"{_shown(text)} names no host: write an IPv6 address with a port as [2001:db8::1]:443")
        sep, tail = rest[:1], rest[1:]
    elif not sep or ":" in host:
        host, sep, tail = text, "", ""
    if sep and not (tail.isascii() and tail.isdigit() and len(tail) <= _PORT_DIGITS and 0 < int(tail) <= LAST_PORT):
        raise UsageError(f"{_shown(text)}: {_shown(tail)} is no port")
    return _host(host), int(tail) if sep else default


def _host(text: str) -> str:
    """Return an address in its usual form, or a name as DNS has it: in ASCII, a last dot kept."""
    try:
        return _address(ipaddress.ip_address(text), text)
    except ValueError:
        pass
    last = text.rstrip(".").rpartition(".")[2]
    if ":" in text or (last.isascii() and (last.isdigit() or _HEXADECIMAL.fullmatch(last))):
        raise UsageError(f"{_shown(text)} is no IP address: write all of it, as 203.0.113.10 or 2001:db8::1")
    try:
        name = text.encode("idna").decode("ascii").removesuffix(".")
    except UnicodeError as error:
        raise UsageError(f"{_shown(text)} names no host: {_too_long_or_empty(text)}") from error
    if not name or len(name) > _LONGEST_NAME:
        raise UsageError(f"{_shown(text)} names no host: {_too_long_or_empty(text)}")
    for label in name.split("."):
        if _LABEL.fullmatch(label) is None:
            raise UsageError(f"{_shown(text)} names no host: names are of letters, digits, hyphens and dots")
    return f"{name}." if text.endswith(".") else name


def _address(address: ipaddress.IPv4Address | ipaddress.IPv6Address, text: str) -> str:
    """Return the address of one machine; UsageError for those that no path leads to."""
    if address.is_multicast or address.is_unspecified or int(address) == _BROADCAST:
        raise UsageError(f"{_shown(text)} is not the address of one machine")
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise UsageError(f"{_shown(text)}: leave the zone; a link's own addresses have no route to check")
    return str(address)


def _too_long_or_empty(text: str) -> str:
    if not text:
        return "it is empty"
    if any(not label for label in text.removesuffix(".").split(".")):
        return "a part between two dots is empty"
    if len(text) > _LONGEST_NAME or any(len(label) > _LONGEST_LABEL for label in text.split(".")):
        return f"a name has at most {_LONGEST_NAME} letters, {_LONGEST_LABEL} between two dots"
    return "it can't be written in DNS"


def _shown(text: str) -> str:
    """Return foreign text for a message: short, and without what a terminal would obey."""
    return repr(text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…")


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
