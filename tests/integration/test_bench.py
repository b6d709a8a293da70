# SPDX-License-Identifier: Apache-2.0
"""scripts/bench: its arithmetic, its document, and a quick run on a real kernel."""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from scripts._bench.estimate import added, estimate
from scripts._bench.readers import Offer, Sustained
from scripts._bench.report import BEGIN, END, Results, text, write
from scripts._bench.tls import Tls, TlsLoss
from scripts._bench.tools import CannotRun, Peer


def test_the_interval_of_few_values_spans_them_all():
    found = estimate([3.0, 1.0, 2.0])
    assert (found.median, found.low, found.high, found.count) == (2.0, 1.0, 3.0, 3)


def test_the_interval_holds_the_median_in_nineteen_of_twenty_samples():
    draw = random.Random(7)
    samples = (estimate([draw.gauss(10, 3) for _ in range(15)]) for _ in range(1000))
    assert sum(found.low <= 10 <= found.high for found in samples) >= 930


def test_an_addition_is_found_under_heavy_noise():
    draw = random.Random(3)

    def rounds(cost: float) -> list[list[float]]:
        return [[cost * (1 + abs(draw.gauss(0, 0.5))) for _ in range(20)] for _ in range(20)]

    found = added(rounds(100.0), rounds(105.0), 0.1)
    assert found.low <= 5.0 <= found.high
    assert found.high - found.low < 6


def test_a_tracer_that_is_missing_says_so():
    with pytest.raises(CannotRun, match="no-such-tracer is not installed"):
        Peer(name="x", command=["no-such-tracer"], records="").start()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts for the tracer that it starts")
def test_a_tracer_that_fails_is_listed_with_its_own_words():
    with pytest.raises(CannotRun, match="no such file on this kernel"):
        Peer(name="x", command=["sh", "-c", "echo no such file on this kernel >&2"], records="").start()


def readers() -> list[Sustained]:
    def offer(asked: int, lost: float, cpu_ns: float) -> Offer:
        return Offer(asked=asked, written=asked * (1 - lost), lost=lost, cpu_ns=cpu_ns)

    return [
        Sustained(
            reader="netdiag",
            rss=18_000_000,
            offers={rate: [offer(rate, 0, 60), offer(rate, 0, 70)] for rate in (500_000, 1_000_000)},
        ),
        Sustained(
            reader="bcc",
            rss=150_000_000,
            offers={500_000: [offer(500_000, 0, 900)], 1_000_000: [offer(1_000_000, 0.2, 900)]},
        ),
        Sustained(reader="bcc-lines", error="no headers"),
    ]


def test_what_was_promised_is_judged_by_what_was_measured():
    said = text(Results(command="x", readers=readers()))
    assert "| no loss at 1 million records/s" in said
    assert "0.000 % lost" in said
    assert "14 times a core's worth; 1.00 M/s without loss, against 0.50 M/s" in said
    assert "20.00 %" in said
    assert "cannot run: no headers" in said
    lossy = readers()
    lossy[0].offers[1_000_000][1].lost = 0.0001
    assert "0.010 % lost" in text(Results(command="x", readers=lossy))


def test_what_tls_costs_is_judged_and_listed():
    costs = Tls(
        idle_ns=[80, 120, 90], followed_ns=[450, 460, 470], records=[1.0] * 3, shake_us=[10] * 3, library_us=[2] * 3,
        connection_bytes=[1500] * 3, chunk_bytes=[32] * 3,
    )  # fmt: skip
    lost = [TlsLoss(tool="netdiag", shakes=[1, 2, 3], requests=[4, 5, 6]), TlsLoss(tool="other", error="no BTF")]
    rows = text(Results(command="x", tls=costs, tls_losses=lost)).splitlines()
    kept = [[cell.strip() for cell in row.split("|")[2:4]] for row in rows if " under " in row]
    assert kept == [["90 ns", "yes"], ["460 ns with 1.00 records", "yes"], ["1500 bytes", "no"], ["32 bytes", "yes"]]
    assert any("cannot run: no BTF" in row for row in rows)
    assert any("2.0 % [1.0, 3.0]" in row and "5.0 % [4.0, 6.0]" in row for row in rows)


def test_the_tables_replace_what_stood_between_the_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(page, Results(command="x", readers=readers()))
    once = page.read_text()
    assert "old" not in once
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    write(page, Results(command="x", readers=readers()))
    assert page.read_text().count("### Promised and measured") == 1


def test_a_page_without_marks_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(ValueError, match="no place"):
        write(page, Results(command="x"))
    assert page.read_text() == "nothing\n"


def test_the_document_has_the_marks(root):
    page = (root / "docs" / "performance.md").read_text()
    assert page.index(BEGIN) < page.index(END)


@pytest.mark.kernel
@pytest.mark.slow
def test_a_quick_look_measures_the_recorder(root):
    """Ratios and losses only: how fast this machine is says nothing here."""
    command = [root / "scripts" / "bench", "--quick", "start", "kernel", "readers"]
    environment = {**os.environ, "NETDIAG_BENCH_BCC_TCPLIFE": "no-such-tracer"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot run: no-such-tracer is not installed" in done.stdout
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in done.stdout.splitlines() if "|" in line}
    assert rows["recorder under 20 MB, while it reads at every rate below"][1].strip() == "yes"
    reader = rows["netdiag's recorder, into its recording"]
    assert reader[0].split()[0] == "0"  # nothing lost at a quarter of a million records a second
    assert float(rows["netdiag"][2]) > 2  # the later table: records per connection, of both ends
