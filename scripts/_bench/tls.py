# SPDX-License-Identifier: Apache-2.0
"""What it costs to follow TLS: kernel time by packet and handshake, bytes recorded, throughput lost."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netdiag.lab import certificate
from scripts._bench import kernel
from scripts._bench.build import HERE, Programs
from scripts._bench.measure import timed, tracing
from scripts._bench.tools import CannotRun, Netdiag, NetdiagRunning, Peer, Tool

__all__ = ["Tls", "TlsLoss", "costs", "losses", "serving", "tools"]

_LOAD = HERE / "tlsload.py"
_SETTLE_S = 0.2
_WIRE = frozenset({"tls_egress", "tls_ingress"})
_LIBRARY = frozenset({"tls_enter", "tls_leave"})
_QUIET_S = 0.8
"""Hellos are recorded once nothing more came for a while."""
WIRE, BOTH = ("process", "tcp", "tls"), ("process", "tcp", "tls", "ssl")
_FUNCTIONS = ("SSL_do_handshake", "SSL_free", "SSL_CTX_new", "SSL_CTX_load_verify_locations")
_BPFTRACE = 'BEGIN { printf("tracing\\n"); }\n' + "".join(
    f"uprobe:LIB:{name} {{ @began[tid] = nsecs; }}\n"
    f"uretprobe:LIB:{name} /@began[tid]/ {{ @{name} = hist(nsecs - @began[tid]); delete(@began[tid]); }}\n"
    for name in _FUNCTIONS
)


@contextlib.contextmanager
def serving(load: Path = _LOAD) -> Iterator[int]:
    """Run the TLS server of a load; yields its port."""
    with tempfile.TemporaryDirectory(prefix="netdiag-bench-") as folder:
        key, cert = certificate.make(Path(folder))
        command = [sys.executable, str(load), "serve", str(cert), str(key)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                yield int(server.stdout.readline())
            finally:
                server.kill()


@dataclass(slots=True, kw_only=True)
class Tls:
    """Costs of one end of a connection; each list has one value a round."""

    idle_ns: list[float] = field(default_factory=list)
    """Per packet of a connection that is not followed any more: plain HTTP."""
    followed_ns: list[float] = field(default_factory=list)
    """Per packet of a stream of small records."""
    records: list[float] = field(default_factory=list)
    """Record headers per packet of that stream."""
    shake_us: list[float] = field(default_factory=list)
    """Per connection with a handshake, one request and the close: the wire's programs."""
    library_us: list[float] = field(default_factory=list)
    """The same: the programs on the library's functions, without the way into them."""
    connection_bytes: list[float] = field(default_factory=list)
    """Record headers and hellos of such a connection in the recording."""
    chunk_bytes: list[float] = field(default_factory=list)
    """Record headers of a streamed chunk."""


class _Client:
    """A client that works when it is told to."""

    def __init__(self, port: int) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = [sys.executable, str(_LOAD), "hold", str(port)]
        self.process = subprocess.Popen(command, text=True, bufsize=1, **pipes)  # type: ignore[call-overload]

    def do(self, kind: str, amount: int) -> None:
        self.process.stdin.write(f"{kind} {amount}\n")
        if not self.process.stdout.readline():
            raise CannotRun("the TLS client ended")

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def costs(programs: Programs, plain_port: int, port: int, *, rounds: int, connections: int, chunks: int) -> Tls:
    """Trace a client by its number while it works, and ask the kernel how long the programs ran."""
    found = Tls()
    client = _Client(port)
    try:
        client.do("shake", 1)
        with timed():
            for _ in range(rounds):
                _idle(found, programs, plain_port)
                _busy(found, client, connections, chunks)
    finally:
        client.close()
    return found


def _idle(found: Tls, programs: Programs, port: int) -> None:
    """Both ends on this machine are known as plain after their first packets."""
    with tracing(Netdiag(probes=WIRE)) as running:
        ids = kernel.program_ids(running.pid)
        before = kernel.program_times(ids, only=_WIRE)
        subprocess.run([programs.workload, "full", str(port), "0.5"], check=True, capture_output=True)
        after = kernel.program_times(ids, only=_WIRE)
    found.idle_ns.append((after.ns - before.ns) / (after.runs - before.runs))


def _busy(found: Tls, client: _Client, connections: int, chunks: int) -> None:
    with tracing(Netdiag(probes=BOTH), client.process.pid) as running:
        assert isinstance(running, NetdiagRunning)
        ids = kernel.program_ids(running.pid)
        client.do("shake", 5)
        time.sleep(_QUIET_S)
        wire, library, size = (*_times(ids), _recorded(running))
        client.do("shake", connections)
        wire_after, library_after = _times(ids)
        time.sleep(_QUIET_S)
        found.shake_us.append((wire_after.ns - wire.ns) / connections / 1000)
        found.library_us.append((library_after.ns - library.ns) / connections / 1000)
        found.connection_bytes.append((_recorded(running) - size) / connections)
        records = running.streams()["tls_record"]
        wire = kernel.program_times(ids, only=_WIRE)
        client.do("chunks", chunks)
        wire_after = kernel.program_times(ids, only=_WIRE)
        time.sleep(_QUIET_S)
        more = running.streams()["tls_record"]
        packets = wire_after.runs - wire.runs
        found.followed_ns.append((wire_after.ns - wire.ns) / packets)
        found.records.append((more[0] - records[0]) / packets)
        found.chunk_bytes.append((more[1] - records[1]) / (more[0] - records[0]))


def _times(ids: set[int]) -> tuple[kernel.Times, kernel.Times]:
    return kernel.program_times(ids, only=_WIRE), kernel.program_times(ids, only=_LIBRARY)


def _recorded(running: NetdiagRunning) -> int:
    """Return the bytes of record headers and hellos in the recording so far."""
    return running.streams().get("tls_record", (0, 0))[1] + running.fact_bytes("hello")


def tools(sslsniff: str, bpftrace: str) -> list[Tool]:
    """Return what is compared: netdiag on the wire, with the library's functions, and other tracers of these."""
    library = _library()
    return [
        Netdiag(name="netdiag, wire", probes=WIRE, records="handshakes and record headers"),
        Netdiag(name="netdiag, wire and library", probes=BOTH, records="also the library's handshake calls"),
        Peer(
            name="bpftrace, same functions",
            command=[bpftrace, "-e", _BPFTRACE.replace("LIB", library)],
            records="histograms of the calls' lengths",
        ),
        Peer(name="bcc sslsniff", command=[sslsniff, "--no-gnutls", "--no-nss"], records="all that is sent and read"),
    ]


def _library() -> str:
    """Return the path of the libssl that this Python uses."""
    code = "import ssl; print([w for w in open('/proc/self/maps').read().split() if 'libssl' in w][0])"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@dataclass(slots=True, kw_only=True)
class TlsLoss:
    """What a TLS client at full speed loses, in percent."""

    tool: str
    shakes: list[float] = field(default_factory=list)
    requests: list[float] = field(default_factory=list)
    error: str | None = None


def losses(tried: Sequence[Tool], port: int, *, rounds: int, seconds: float, connections: int) -> list[TlsLoss]:
    """Measure without and with each tracer in turn; each spell is compared with those before and after it."""
    found = {tool.name: TlsLoss(tool=tool.name) for tool in tried}
    before = _rates(port, seconds, connections)
    for turn in range(rounds):
        for tool in tried if turn % 2 == 0 else tried[::-1]:
            result = found[tool.name]
            if result.error is not None:
                continue
            try:
                with tracing(tool):
                    time.sleep(_SETTLE_S)
                    during = _rates(port, seconds, connections)
            except CannotRun as error:
                result.error = str(error)
                continue
            time.sleep(_SETTLE_S)
            after = _rates(port, seconds, connections)
            for values, place in ((result.shakes, 0), (result.requests, 1)):
                values.append((1 - during[place] / ((before[place] + after[place]) / 2)) * 100)
            before = after
    return list(found.values())


def _rates(port: int, seconds: float, connections: int) -> tuple[float, float]:
    return _rate("shake", port, connections), _rate("full", port, seconds)


def _rate(mode: str, port: int, amount: float) -> float:
    command = [sys.executable, str(_LOAD), mode, str(port), str(amount)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, nanoseconds = done.stdout.split()
    return int(count) / int(nanoseconds) * 1e9
