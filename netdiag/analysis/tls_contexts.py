# SPDX-License-Identifier: Apache-2.0
"""TLS contexts that are built for each connection, as the program's TLS library was seen to build them."""

from __future__ import annotations

from statistics import median

from netdiag.analysis.build import Seen, milliseconds
from netdiag.analysis.links import known
from netdiag.analysis.tls_shakes import Server, saw
from netdiag.findings import Severity

__all__ = ["built_anew"]

_HABIT = 3
_WORTH_MS = 5.0
"""An empty context takes a tenth of a millisecond, one with a bundle of CA certificates some ten."""


def built_anew(server: Server) -> Seen | None:
    """The program builds a context, or loads trusted certificates, for most of its connections; one would do."""
    done = [shake for shake in server.completed() if known(shake.link.contexts)]
    built = [shake for shake in done if shake.link.contexts >= 1 and shake.link.context_ms >= _WORTH_MS]
    again = built[1:]  # the first one is needed
    if len(again) < _HABIT or len(built) < 0.8 * len(done):
        return None
    times = [shake.link.context_ms for shake in again]
    return saw(
        "tls.context-per-client",
        server,
        again,
        of=len(done),
        confidence=0.95,
        cost_ms=sum(times),
        ceiling=None if 2 * len(again) > server.calls else Severity.INFO,  # most calls pay for none of them
        cause="built-anew",
        note=f"the TLS library built contexts and loaded certificates for a median of {milliseconds(median(times))}",
        words={"time": milliseconds(median(times))},
    )
