# SPDX-License-Identifier: Apache-2.0
"""What reading plaintext costs the traced program, beside bpftrace on the same functions: `scripts/bench plain`.

Each spell with a tracer is compared with the mean of the spells right before and after it, and the medians have their
95 % intervals. `--first` runs all of it before whatever else the machine does (SCHED_RR), for machines that are shared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from netdiag.errors import InputUnreadable
from netdiag.recording.reader import read
from scripts._bench.build import HERE
from scripts._bench.estimate import Estimate, estimate
from scripts._bench.tls import serving

LOAD = HERE / "plainload.py"
CALLS = ("SSL_read", "SSL_read_ex", "SSL_write", "SSL_write_ex")
KINDS = {"full": "full 1", "ask": "ask 1 2000", "streams": "streams 1 20 100"}
_ENDED_S = 1.0
"""When the recording is closed; what the command goes on to do are analyses, which are not measured here."""
BPFTRACE = 'BEGIN { printf("tracing\\n"); }\n' + "".join(
    f"uprobe:LIB:{name} {{ @began[tid] = nsecs; @buffer[tid] = arg1; }}\n"
    f'uretprobe:LIB:{name} /@began[tid]/ {{ printf("%d %d %r\\n", nsecs, nsecs - @began[tid], '
    "buf(@buffer[tid], 64)); delete(@began[tid]); delete(@buffer[tid]); }\n"
    for name in CALLS
)


class Client:
    """A client that works when it is told to."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, str(LOAD), "hold", str(port)]
        self.process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True, bufsize=1)
        self._line()

    def _line(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def do(self, words: str) -> dict[str, float]:
        """Work for a spell; return what it measured."""
        assert self.process.stdin is not None
        self.process.stdin.write(words + "\n")
        said = self._line()
        return {
            "us_per_call": said["seconds"] / said["count"] * 1e6,
            "cpu_us": said["cpu_s"] / said["count"] * 1e6,
            "p50_us": said["p50_us"],
            "p99_us": said["p99_us"],
            "rate": said["count"] / said["seconds"],
        }


@contextlib.contextmanager
def netdiag(pid: int, told: dict[str, list[float]]) -> Iterator[None]:
    """Trace by the whole command, with all its probes."""
    with tempfile.TemporaryDirectory(prefix="netdiag-bench-") as folder:
        saved = Path(folder, "t.netdiag")
        words = ["trace", "--as-root", "--no-keep", "--no-live-lines", "--save", str(saved), "--pid", str(pid)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([sys.executable, "-m", "netdiag", *words], **quiet) as tracer:  # type: ignore[call-overload]
            try:
                while not _armed(saved):
                    time.sleep(0.05)
                time.sleep(1.2)  # what was armed a second ago is not timed any more
                yield
            finally:
                tracer.send_signal(signal.SIGINT)
                time.sleep(_ENDED_S)
                tracer.kill()
        (cost,) = read(saved).facts_of("cost")
        spent = {each["name"]: each for each in cost["programs"]}
        enter, leave = spent["plain_enter"], spent["plain_leave"]
        if leave["runs"]:
            told["programs_us"].append((enter["ns"] + leave["ns"]) / leave["runs"] / 1e3)


def _armed(saved: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, InputUnreadable):
        return bool(list(read(saved).facts_of("coverage")))
    return False


@contextlib.contextmanager
def bpftrace(pid: int, told: dict[str, list[float]]) -> Iterator[None]:
    """Trace the same functions of the same process, with a line for each call."""
    maps = Path(f"/proc/{pid}/maps").read_text().split()
    library = next(word for word in maps if "libssl" in word)
    command = ["bpftrace", "-p", str(pid), "-e", BPFTRACE.replace("LIB", library)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tracer:
        assert tracer.stdout is not None
        drain = None
        try:
            for line in tracer.stdout:
                if "tracing" in line:
                    break
            else:
                raise RuntimeError("bpftrace ended at once")
            drain = subprocess.Popen(["cat"], stdin=tracer.stdout, stdout=subprocess.DEVNULL)
            time.sleep(0.3)
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
            if drain is not None:
                drain.wait()
    told["programs_us"].append(float("nan"))


TOOLS: dict[str, Callable[[int, dict[str, list[float]]], contextlib.AbstractContextManager[None]]] = {
    "netdiag trace": netdiag,
    "bpftrace": bpftrace,
}


def measured(rounds: int) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return tool and kind of load → figure → what each round added."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with serving(LOAD) as port:
        client = Client(port)
        try:
            for words in KINDS.values():
                client.do(words)
            before = {kind: client.do(words) for kind, words in KINDS.items()}
            for turn in range(rounds):
                for tool in list(TOOLS)[:: 1 if turn % 2 == 0 else -1]:
                    before = _round(found, client, tool, before)
                print(f"round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
        finally:
            client.process.kill()
            client.process.communicate()
    return found


def _round(
    found: dict[tuple[str, str], dict[str, list[float]]], client: Client, tool: str, before: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]]:
    """Trace for a spell; return what the one after it measured."""
    with TOOLS[tool](client.process.pid, found[tool, "programs"]):
        during = {kind: client.do(words) for kind, words in KINDS.items()}
    after = {kind: client.do(words) for kind, words in KINDS.items()}
    for kind in KINDS:
        for name, value in during[kind].items():
            without = (before[kind][name] + after[kind][name]) / 2
            found[tool, kind][name].append(value - without)
            found[tool, kind][name + "_share"].append((value / without - 1) * 100)
            found[tool, kind][name + "_without"].append(without)
    return after


def shown(value: Estimate, digits: int = 1) -> str:
    """Return a median with its interval."""
    return f"{value.median:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"


def table(found: dict[tuple[str, str], dict[str, list[float]]]) -> list[str]:
    """Return the lines of a Markdown table."""
    rows = (
        ("a call on its way through both probes, µs, traps included", "full", "us_per_call", 0.5),
        ("requests/s at full speed, %", "full", "rate_share", 1),
        ("CPU of a request at 2,000 a second, µs", "ask", "cpu_us", 1),
        ("CPU of a request at 2,000 a second, %", "ask", "cpu_us_share", 1),
        ("median of a request at 2,000 a second, µs", "ask", "p50_us", 1),
        ("p99 of a request at 2,000 a second, µs", "ask", "p99_us", 1),
        ("CPU of a chunk in 20 streams of 100 a second, %", "streams", "cpu_us_share", 1),
        ("median of how late a chunk is read, µs", "streams", "p50_us", 1),
        ("p99 of how late a chunk is read, µs", "streams", "p99_us", 1),
    )
    lines = ["| added by tracing | without | " + " | ".join(TOOLS) + " |", "|---|---|" + "---|" * len(TOOLS)]
    for title, kind, name, factor in rows:
        plain = name.removesuffix("_share")
        alone = estimate([each * factor for tool in TOOLS for each in found[tool, kind][plain + "_without"]])
        cells = [shown(estimate([each * factor for each in found[tool, kind][name]])) for tool in TOOLS]
        lines.append(f"| {title} | {alone.median:.1f} | " + " | ".join(cells) + " |")
    spent = shown(estimate(found["netdiag trace", "programs"]["programs_us"]), 2)
    lines.append(f"| kernel programs of a call (bpf_stats), µs | | {spent} | not known |")
    return lines


def main() -> None:
    """Measure, and print the table."""
    words = argparse.ArgumentParser(prog="scripts/bench plain", description=__doc__)
    words.add_argument("rounds", type=int, nargs="?", default=8)
    words.add_argument("--first", action="store_true", help="before whatever else the machine does")
    said = words.parse_args()
    if said.first:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    load = os.getloadavg()[0]
    found = measured(said.rounds)
    how = ", all of it at real-time priority" if said.first else ""
    print(f"{said.rounds} rounds, load {load:.0f} before and {os.getloadavg()[0]:.0f} after{how}\n")
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
