# SPDX-License-Identifier: Apache-2.0
"""A capture in parts gives the document that it gives as a whole; what parts cannot tell apart stays whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netdiag import analysis, capture, document, tables
from netdiag.recording.reader import Recording
from netdiag.tables import parts

CAPTURES = Path(__file__).resolve().parents[2] / "captures"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Return all captures of the project as one: resumption, streams, plaintext, closes, several servers."""
    files = sorted(CAPTURES.glob("own_*.pcap"))
    path = tmp_path_factory.mktemp("parts") / "all.pcap"
    path.write_bytes(files[0].read_bytes()[:24] + b"".join(file.read_bytes()[24:] for file in files))
    return capture.read(path)


def told(recording: Recording, built: tables.Tables) -> str:
    """Return the document, as text: what differs in type differs here, too."""
    report = analysis.examine(built)
    assert not report.failures
    return json.dumps(document.build(recording, built, report.findings, stalls=report.stalls), default=str)


def large(built: tables.Tables) -> dict[str, pd.DataFrame]:
    """Return the tables that lie in files, with texts as such."""
    found = {"bursts": built.bursts, "records": built.records}
    return {name: frame.astype({"direction": object}) for name, frame in found.items()}


@pytest.mark.parametrize("size", [40, 400])
def test_the_document_is_that_of_the_whole(recording: Recording, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tables.build(recording)
    pieces: list[int] = []

    def each(work: Any, count: int) -> Any:
        pieces.append(count)
        return map(work, range(count))

    monkeypatch.setattr(parts, "PART", size)
    built = tables.build(recording, each=each)
    assert min(pieces) > 1
    assert told(recording, built) == told(recording, whole)
    for name, frame in large(built).items():
        pd.testing.assert_frame_equal(frame, large(whole)[name])
    for name in ("turns", "retransmits", "chunks", "handshakes"):
        pd.testing.assert_frame_equal(getattr(built, name), getattr(whole, name))


def test_records_in_any_order_give_the_same(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that were put in order of connections, as a long capture's are, and such as were not."""
    whole = told(recording, tables.build(recording))
    runs = dict(recording.runs)
    for stream in ("tcp_io", "tls_record"):
        rows = np.concatenate(runs[stream])
        runs[stream] = [rows[np.argsort(rows["cookie"], kind="stable")]]
    monkeypatch.setattr(parts, "PART", 100)
    assert told(recording, tables.build(replace(recording, runs=runs))) == whole


def test_a_trace_is_never_cut(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a live trace what one connection shows may come from another one's end, or from its TLS library."""
    monkeypatch.setattr(parts, "PART", 40)
    live = replace(recording, header={**recording.header, "tier": "kernel"})
    tables.build(live, each=lambda *_: pytest.fail("worked on in parts"))


def test_both_ends_of_a_connection_stay_together(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one end shows of encryption holds for the other: then there is one part."""
    ends = recording.runs["tcp"][0].copy()
    for one, other in (("saddr", "daddr"), ("sport", "dport")):
        ends[one][1], ends[other][1] = ends[other][0], ends[one][0]
    monkeypatch.setattr(parts, "PART", 40)
    built = tables.build(
        replace(recording, runs={**recording.runs, "tcp": [ends]}), each=lambda *_: pytest.fail("worked on in parts")
    )
    assert len(built.connections) == len(ends)
