# SPDX-License-Identifier: Apache-2.0
"""How many records a second a reader takes out of a ring, and what is lost on the way."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts._bench import kernel
from scripts._bench.build import Programs
from scripts._bench.measure import tracing
from scripts._bench.tools import Netdiag

__all__ = ["Sustained", "sustained"]


_RING = "io_events"
_PAGE = 4096
NAMES = {
    "netdiag": "netdiag's recorder, into its recording",
    "C": "C, libbpf ring_buffer__poll, into a file",
    "bcc": "bcc, callback reads one field",
    "bcc-lines": "bcc, callback prints a line, as its tools do",
}


@dataclass(slots=True, kw_only=True)
class Offer:
    """One spell at one rate."""

    asked: int
    """Records a second."""
    written: float
    """Records a second that reached the reader."""
    lost: float
    """Part of the records, 0 to 1."""
    cpu_ns: float
    """The reader's CPU time per record that it got."""


@dataclass(slots=True, kw_only=True)
class Sustained:
    """One reader."""

    reader: str
    ring: int = 0
    """Bytes."""
    offers: dict[int, list[Offer]] = field(default_factory=dict)
    rss: int = 0
    """VmHWM of the very process that read, bytes."""
    error: str | None = None


def sustained(
    programs: Programs, rates: Sequence[int], *, rounds: int, seconds: float, environment: Mapping[str, str]
) -> list[Sustained]:
    """Offer each reader records at each rate, in turn; every reader has a ring of the same size."""
    found = {name: Sustained(reader=name) for name in NAMES}
    with _netdiag() as (_, ring, size):
        del ring
    openers: dict[str, Callable[[], contextlib.AbstractContextManager[tuple[int, int, int]]]] = {
        "netdiag": _netdiag,
        "C": lambda: _command([str(programs.consume), "FILE", str(size)], {}),
        "bcc": lambda: _command([str(programs.bcc_reader), str(size // _PAGE)], environment),
        "bcc-lines": lambda: _command([str(programs.bcc_reader), str(size // _PAGE), "FILE"], environment),
    }
    for _ in range(rounds):
        for name, opener in openers.items():
            if found[name].error is None:
                _offer_all(found[name], opener, programs, rates, seconds)
    return list(found.values())


def _offer_all(
    found: Sustained,
    opener: Callable[[], contextlib.AbstractContextManager[tuple[int, int, int]]],
    programs: Programs,
    rates: Sequence[int],
    seconds: float,
) -> None:
    try:
        with opener() as (pid, ring, size):
            found.ring = size
            for rate in rates:
                found.offers.setdefault(rate, []).append(_offer(programs, pid, ring, rate, seconds))
                time.sleep(0.1)
            found.rss = max(found.rss, kernel.peak_rss(pid))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        found.error = str(error)


def _offer(programs: Programs, pid: int, ring: int, rate: int, seconds: float) -> Offer:
    before = _cpu_ns(pid)
    command = [str(programs.generate), str(programs.records), str(ring), str(rate), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    made, lost, nanoseconds = map(int, done.stdout.split())
    time.sleep(0.1)
    got = made - lost
    return Offer(
        asked=rate, written=got / nanoseconds * 1e9, lost=lost / made, cpu_ns=(_cpu_ns(pid) - before) / max(got, 1)
    )


def _cpu_ns(pid: int) -> int:
    """Return the CPU time of the process's main thread: the first number of schedstat."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


@contextlib.contextmanager
def _netdiag() -> Iterator[tuple[int, int, int]]:
    """Run the recorder; yields its pid, and id and size of the ring of reads and writes."""
    with tracing(Netdiag()) as running:
        ring = kernel.map_id(running.pid, _RING)
        yield running.pid, ring, kernel.map_size(ring)


@contextlib.contextmanager
def _command(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[int, int, int]]:
    """Run a reader that prints its ring's id and reads until its input ends; FILE becomes a file for its output."""
    with tempfile.TemporaryDirectory(prefix="netdiag-bench-") as folder:
        words = [str(Path(folder, "records")) if word == "FILE" else word for word in command]
        reader = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        assert reader.stdout is not None
        first = reader.stdout.readline()
        if not first:
            raise OSError(reader.communicate()[1].strip().splitlines()[-1])
        try:
            yield reader.pid, int(first), kernel.map_size(int(first))
        finally:
            reader.communicate()
