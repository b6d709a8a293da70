# SPDX-License-Identifier: Apache-2.0
"""The figures as tables, on the terminal and in docs/performance.md, each against what was promised."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts._bench.estimate import Estimate, estimate
from scripts._bench.measure import Costs, Footprint, Request, Throughput
from scripts._bench.readers import NAMES, Sustained
from scripts._bench.tls import Tls, TlsLoss

__all__ = ["Results", "text", "write"]

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
MB = 1_000_000
Row = Sequence[str]


@dataclass(slots=True, kw_only=True)
class Results:
    """Everything that one run found."""

    command: str
    footprints: list[Footprint] = field(default_factory=list)
    command_start: Estimate | None = None
    costs: list[Costs] = field(default_factory=list)
    throughput: list[Throughput] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    tls: Tls | None = None
    tls_losses: list[TlsLoss] = field(default_factory=list)
    tls_requests: list[Request] = field(default_factory=list)
    readers: list[Sustained] = field(default_factory=list)
    records: dict[str, str] = field(default_factory=dict)
    """What each tool records, in words."""


def text(results: Results) -> str:
    """Return all tables in Markdown."""
    parts = [f"Measured {_about()}, by `{results.command}`.", "", *_section("Promised and measured", _targets(results))]
    parts += _section("Start and memory", _start(results))
    parts += _section("Kernel time per connection, both of its ends", _costs(results))
    parts += _section("Throughput that a client at full speed loses", _throughput(results))
    parts += _section("CPU per request of a client at 1,000 requests a second", _requests(results.requests))
    parts += _section("TLS, one end of a connection", _tls(results.tls))
    parts += _section("Throughput that a TLS client at full speed loses", _tls_losses(results.tls_losses))
    title = "CPU per request of http.client over TLS at 1,000 requests a second"
    parts += _section(title, _requests(results.tls_requests, "tracer"))
    parts += _section("Records a second that a reader takes", _readers(results))
    return "\n".join(parts).rstrip() + "\n"


def write(path: Path, results: Results) -> None:
    """Put the tables between the two marks of a document. Raises ValueError where it has none."""
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no place for the tables: {BEGIN} … {END}")
    path.write_text(f"{before}{BEGIN}\n\n{text(results)}\n{END}{after}")


def _about() -> str:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        "?",
    )
    machine = subprocess.run(["systemd-detect-virt"], capture_output=True, text=True, check=False).stdout.strip()
    where = f"{os.cpu_count()} CPUs ({model}{', virtual machine' if machine not in ('', 'none') else ''})"
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return f"on {date} on Linux {os.uname().release}, {os.uname().machine}, {where}, load {os.getloadavg()[0]:.1f}"


def _section(title: str, rows: Iterable[Row]) -> list[str]:
    listed = [[str(cell) for cell in row] for row in rows]
    if len(listed) < 2:
        return []
    widths = [max(len(row[column]) for row in listed) for column in range(len(listed[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in listed
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return [f"### {title}", "", lines[0], rule, *lines[1:], ""]


def _targets(results: Results) -> Iterable[Row]:
    yield "promise", "measured", "kept"
    own = next((f for f in results.footprints if f.tool == "netdiag" and f.ready_ms), None)
    if own and own.ready_ms:
        yield "armed in under 0.3 s", f"{own.ready_ms.median:.0f} ms", _kept(own.ready_ms.median < 300)
    reader = next((r for r in results.readers if r.reader == "netdiag" and r.offers), None)
    if own or reader:
        most = max(own.rss if own else 0, reader.rss if reader else 0)
        yield "recorder under 20 MB, while it reads at every rate below", f"{most / MB:.1f} MB", _kept(most < 20 * MB)
    for request in results.requests:
        if request.client != "C":
            what = f"CPU per request of {request.client} at 1,000 requests/s up by under 2 %"
            said = f"{_interval(request.added_percent, '%')}; {request.programs_percent:.1f} % by bpf_stats, both sides"
            under = {request.added_percent.median < 2, request.programs_percent < 2}
            yield what, said, "unclear" if len(under) == 2 else _kept(True in under)
    costs = {cost.tool: estimate(cost.ns).median / 1000 for cost in results.costs if cost.ns}
    if {"netdiag", "tcplife"} <= set(costs):
        said = f"{costs['netdiag']:.1f} µs, tcplife {costs['tcplife']:.1f} µs"
        yield (
            "kernel time per connection at most libbpf-tools' tcplife",
            said,
            _kept(costs["netdiag"] <= costs["tcplife"]),
        )
    if results.tls:
        yield from _tls_targets(results.tls)
    if reader:
        yield from _reader_targets(reader, results.readers)


def _reader_targets(reader: Sustained, readers: Sequence[Sustained]) -> Iterable[Row]:
    if 1_000_000 in reader.offers:
        lost = max(offer.lost for offer in reader.offers[1_000_000])
        yield "no loss at 1 million records/s", f"{lost * 100:.3f} % lost", _kept(lost == 0)
    for name in ("bcc", "bcc-lines"):
        peer = next((r for r in readers if r.reader == name and r.offers), None)
        if peer:
            ratio = _core_rate(reader) / _core_rate(peer)
            said = f"{ratio:.0f} times a core's worth; {_lossless(reader)} without loss, against {_lossless(peer)}"
            yield f"10 times the records/s of {NAMES[name]}", said, _kept(ratio >= 10)


def _core_rate(reader: Sustained) -> float:
    """Return the records a second that one core reads, from the CPU time per record at the best rate."""
    return 1e9 / min(estimate([offer.cpu_ns for offer in offers]).median for offers in reader.offers.values())


def _lossless(reader: Sustained) -> str:
    """Return the highest rate that really arrived, with nothing lost in any spell up to it."""
    best = 0.0
    for _, offers in sorted(reader.offers.items()):
        if any(offer.lost for offer in offers):
            break
        best = max(best, *(offer.written for offer in offers))
    return f"{best / 1e6:.2f} M/s"


def _start(results: Results) -> Iterable[Row]:
    yield "", "ready, ms", "first event, ms", "peak memory, MB", "with its children, MB", "in the kernel, MB"
    for found in results.footprints:
        if found.error or not found.ready_ms or not found.first_event_ms:
            yield found.tool, f"cannot run: {found.error}", "", "", "", ""
            continue
        sizes = (f"{size / MB:.1f}" for size in (found.rss, found.tree, found.kernel))
        yield found.tool, _interval(found.ready_ms), _interval(found.first_event_ms), *sizes
    if results.command_start:
        yield "netdiag trace -- CMD, until CMD runs", _interval(results.command_start), "", "", "", ""


def _costs(results: Results) -> Iterable[Row]:
    yield "", "µs per connection", "program runs", "records", "µs per record", "what is recorded"
    for cost in results.costs:
        if cost.error or not cost.ns:
            yield cost.tool, f"cannot run: {cost.error}", "", "", "", ""
            continue
        each, records = estimate([ns / 1000 for ns in cost.ns]), estimate(cost.records).median
        runs, per_record = estimate(cost.runs).median, each.median / records if records else float("nan")
        yield (
            cost.tool,
            _interval(each),
            f"{runs:.0f}",
            f"{records:.1f}",
            f"{per_record:.2f}",
            results.records[cost.tool],
        )


def _throughput(results: Results) -> Iterable[Row]:
    yield "", "connect, ask, close", "ask on one connection", "pairs"
    for found in results.throughput:
        if found.error or not found.lost:
            yield found.tool, f"cannot run: {found.error}", "", ""
            continue
        both = [estimate(found.lost[kind]) for kind in ("connections", "requests")]
        yield found.tool, *(_interval(each, "%") for each in both), str(both[0].count)


def _tls(found: Tls | None) -> Iterable[Row]:
    yield "", "measured"
    if found is None:
        return
    yield "packet of a connection that is not followed, ns", _interval(estimate(found.idle_ns))
    yield "packet of a stream of small records, ns", _interval(estimate(found.followed_ns))
    yield "records in such a packet", f"{estimate(found.records).median:.2f}"
    yield "connection with handshake and one request, on the wire, µs", _interval(estimate(found.shake_us))
    yield "the same, in the library, without the way into the probes, µs", _interval(estimate(found.library_us))
    yield "bytes recorded of such a connection by the tls probe", _interval(estimate(found.connection_bytes))
    yield "bytes recorded of a streamed chunk", _interval(estimate(found.chunk_bytes))


def _tls_targets(found: Tls) -> Iterable[Row]:
    idle, followed, records = (estimate(each).median for each in (found.idle_ns, found.followed_ns, found.records))
    yield "packet of a connection no longer followed under 110 ns", f"{idle:.0f} ns", _kept(idle < 110)
    limit = 400 + 100 * records
    said = f"{followed:.0f} ns with {records:.2f} records"
    yield "packet of a followed one under 400 ns and 100 ns a record", said, _kept(followed < limit)
    size, chunk = estimate(found.connection_bytes).median, estimate(found.chunk_bytes).median
    yield "recording under 1 KB per TLS connection, tls probe", f"{size:.0f} bytes", _kept(size < 1024)
    yield "recording under 64 bytes per chunk", f"{chunk:.0f} bytes", _kept(chunk < 64)


def _tls_losses(found: Sequence[TlsLoss]) -> Iterable[Row]:
    yield "", "connect, handshake, ask, close", "ask on one connection", "pairs"
    for each in found:
        if each.error or not each.shakes:
            yield each.tool, f"cannot run: {each.error}", "", ""
            continue
        both = [estimate(values) for values in (each.shakes, each.requests)]
        yield each.tool, *(_interval(value, "%") for value in both), str(both[0].count)


def _requests(requests: Sequence[Request], who: str = "client") -> Iterable[Row]:
    yield who, "alone, µs", "added by tracing", "rounds", "programs, µs (server's side too)", "of the client's"
    for request in requests:
        added = _interval(request.added_percent, "%")
        programs = f"{request.programs_us:.2f}", f"{request.programs_percent:.1f} %"
        yield request.client, f"{request.alone_us:.1f}", added, str(request.added_percent.count), *programs


def _readers(results: Results) -> Iterable[Row]:
    rates = sorted({rate for reader in results.readers for rate in reader.offers})
    yield "lost at", *(f"{rate / 1e6:g} M/s" for rate in rates), "ns CPU per record", "peak memory, MB"
    for reader in results.readers:
        if reader.error or not reader.offers:
            yield NAMES[reader.reader], f"cannot run: {reader.error}", *("" for _ in rates[1:]), "", ""
            continue
        lost = (_lost(reader, rate) for rate in rates)
        yield NAMES[reader.reader], *lost, f"{1e9 / _core_rate(reader):.0f}", f"{reader.rss / MB:.1f}"


def _lost(reader: Sustained, rate: int) -> str:
    """Return the largest part that was lost; where the writer itself did not reach the rate, what it reached."""
    offers = reader.offers.get(rate, [])
    if not offers:
        return ""
    lost = max(offer.lost for offer in offers) * 100
    reached = min(offer.written / (1 - offer.lost) if offer.lost < 1 else 0 for offer in offers)
    short = f" (of {reached / 1e6:.2f})" if reached < 0.97 * rate else ""
    return ("0" if lost == 0 else f"{lost:.2f} %" if lost >= 0.01 else "< 0.01 %") + short


def _interval(found: Estimate, unit: str = "") -> str:
    digits = 0 if max(abs(found.low), abs(found.high)) >= 100 else 1
    low, middle, high = (f"{value:.{digits}f}" for value in (found.low, found.median, found.high))
    return f"{middle}{f' {unit}' if unit else ''} [{low}, {high}]"


def _kept(good: bool) -> str:  # noqa: FBT001 - its one question
    return "yes" if good else "no"
