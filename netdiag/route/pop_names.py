# SPDX-License-Identifier: Apache-2.0
"""Which point of presence answered: what the headers of its own HTTP answer say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from netdiag.route.gazetteer import Place, airport
from netdiag.text import safe

__all__ = ["WEIGHT", "Pop", "from_headers"]

WEIGHT = 0.95
"""Of a colo header of this very connection."""

_RAY = re.compile(r"[0-9a-f]{8,32}-([A-Z]{3})")
_CLOUDFRONT = re.compile(r"([A-Z]{3})\d{1,3}(?:-[A-Z]+\d+)?")
_FASTLY = re.compile(r"cache-[a-z0-9-]+-([A-Z]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pop:
    """A point of presence by its own word."""

    code: str
    """Airport code, in capitals."""
    header: str
    evidence: str
    """What a reader may see of the header: `cf-ray …-FRA`."""
    place: Place | None
    """None: no airport has that code."""


def from_headers(headers: Mapping[str, str]) -> Pop | None:
    """Return the point of presence that an answer names; None where no header does, or not in its known form."""
    for header, pattern in (("cf-ray", _RAY), ("x-amz-cf-pop", _CLOUDFRONT), ("x-served-by", _FASTLY)):
        # several caches may have taken part: the last one in the list is the one that answered us
        value = headers.get(header, "").rpartition(",")[2].strip()
        match = pattern.fullmatch(value)
        if match is not None:
            code = match[1]
            shown = safe(value) if len(value) <= 16 else f"…-{code}"
            return Pop(code=code, header=header, evidence=f"{header} {shown}", place=airport(code))
    return None
