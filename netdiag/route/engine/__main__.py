# SPDX-License-Identifier: Apache-2.0
"""One trace or a run of connects, raw: `python -m netdiag.route.engine REQUEST.json` prints the model's JSON.

REQUEST is a list of objects with the members of `TraceRequest` or, with `"connect": true`, `ConnectRequest`; `-` reads
it from standard input. It is what the lab's tests run at the client's end of a network.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from netdiag.route.engine.live import LiveProber
from netdiag.route.prober import ConnectRequest, TraceRequest
from netdiag.route.store import plain, restore

__all__ = ["answer", "main", "peak_mb"]


def answer(requests: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the traces and connects in order, with the time and memory that they took."""
    prober = LiveProber()
    results = []
    for request in requests:
        if request.pop("connect", False):
            results.append(plain(prober.connect(restore(ConnectRequest, request))))
        else:
            results.append(plain(prober.trace(restore(TraceRequest, request))))
    return {"results": results, "cpu_s": time.process_time(), "rss_mb": peak_mb()}


def peak_mb() -> float | None:
    """Return the most memory that this program held, MB; `getrusage` would count that of whoever started it, too."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return None


def main() -> None:
    """Read, probe, print."""
    source = sys.argv[1]
    text = sys.stdin.read() if source == "-" else Path(source).read_text()
    print(json.dumps(answer(json.loads(text))))  # noqa: T201 - its output


if __name__ == "__main__":
    main()
