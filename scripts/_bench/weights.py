# SPDX-License-Identifier: Apache-2.0
"""What tracing a load costs, beside other tracers: `scripts/bench weights [ROUNDS] [FAULTS]`; root.

The load reads a file that is in memory into new memory, a page fault for each page. Rounds alternate between alone and
each tracer; the least of the rounds is compared, since on a shared machine only that repeats.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[2]
_MIB = 1 << 20
_SIZE = 256 * _MIB
_WITH_TRACEFS = (
    "unshare", "-m", "sh", "-c", 'mount -t tracefs none /sys/kernel/tracing 2>/dev/null; exec "$@"', "sh",
)  # fmt: skip
"""A mount namespace of its own where nobody mounted it."""
_SCRIPT = (
    "tracepoint:exceptions:page_fault_user { @u = count(); } tracepoint:exceptions:page_fault_kernel { @k = count(); }"
)


def main(arguments: Sequence[str]) -> int:
    """Measure and print a table; returns the exit status."""
    rounds = int(arguments[0]) if arguments else 3
    faults = int(arguments[1]) if len(arguments) > 1 else 1_200_000
    if os.geteuid() != 0:
        sys.stderr.write("scripts/bench weights: needs root, as every tracer that it compares does\n")
        return 4
    with tempfile.TemporaryDirectory(prefix="netdiag-bench-", dir="/var/tmp") as name:
        folder = Path(name)
        program, model = folder / "touch", folder / "model"
        source = _ROOT / "tests" / "fakes" / "weights" / "touch.c"
        subprocess.run(["cc", "-O1", "-o", program, source, "-lpthread"], check=True)
        model.write_bytes(os.urandom(_MIB) * (_SIZE // _MIB))
        load = [str(program), "fresh", str(model), str(max(1, faults * 4096 // _SIZE))]
        tools = {"alone": None, **_tools(folder)}
        times: dict[str, list[float]] = {tool: [] for tool in tools}
        for _ in range(rounds):
            for tool, prefix in tools.items():
                times[tool].append(_inside(folder, load, prefix))
    alone = min(times["alone"])
    sys.stdout.write(f"{faults:,} page faults, the least of {rounds} rounds\n")
    for tool, took in times.items():
        sys.stdout.write(f"{tool:<16}{min(took):>8.3f} s{min(took) / alone:>8.3f} x\n")
    return 0


def _tools(folder: Path) -> dict[str, list[str]]:
    """Return the tracers that are here, by name: what stands before the command."""
    netdiag = [sys.executable, "-m", "netdiag", "weights", "--no-keep", "-o", str(folder / "report"), "--"]
    procfs = [*netdiag[:-1], "--tier", "procfs", "--"]
    found = {"netdiag": netdiag, "netdiag, /proc": procfs}
    if shutil.which("strace"):
        found["strace"] = ["strace", "-f", "-o", "/dev/null"]
    if shutil.which("perf"):
        found["perf trace -F"] = ["perf", "trace", "-F", "all", "--no-syscalls", "-o", "/dev/null"]
    if shutil.which("bpftrace"):
        found["bpftrace"] = [*_WITH_TRACEFS, "bpftrace", "-q", "-e", _SCRIPT, "-c"]
    return found


def _inside(folder: Path, load: Sequence[str], prefix: Sequence[str] | None) -> float:
    """Return the time from the load's own start to its end, whatever its tracer takes before and after."""
    clock = folder / "clock.py"
    clock.write_text(_CLOCK)
    out = folder / "took"
    timed = [sys.executable, "-S", str(clock), str(out), *load]
    whole = prefix is not None and prefix[-1] == "-c"
    command = [*(prefix or ()), *([" ".join(timed)] if whole else timed)]
    out.unlink(missing_ok=True)
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    time.sleep(0.2)
    return float(out.read_text()) if out.exists() else float("nan")  # this tracer cannot run here


_CLOCK = """import subprocess, sys, time
began = time.monotonic()
subprocess.run(sys.argv[2:], check=True)
open(sys.argv[1], "w").write(str(time.monotonic() - began))
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
