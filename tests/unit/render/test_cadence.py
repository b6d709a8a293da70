# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from netdiag.render import cadence
from tests.fakes import calls, documents


def test_pieces_come_from_the_chunks():
    source = calls.source()
    requests = source.tables.requests.assign(sent_ns=[float("nan")] * 5 + [1e9, float("nan")])
    chunks = documents.rows(
        "chunks", [{"request": 5, "number": n, "at_ns": 1e9 + n * 20e6, "bytes": 1} for n in range(3)]
        + [{"request": 0, "number": 0, "at_ns": 5e6, "bytes": 1}],
    )  # fmt: skip
    assert cadence.pieces(replace(source.tables, requests=requests, chunks=chunks)) == {"r6": (0.0, 20.0, 40.0)}
    assert cadence.pieces(source.tables) == {}


def test_stalls_and_first_token_stand_where_they_were():
    drawn = cadence.draw(calls.source().document(), {"r6": (0.0, 250.25, 500.0, 1000.0)})
    assert drawn is not None
    (stream,) = drawn.streams
    ((x, width, blame, told),) = stream.stalls
    scale = cadence.PLOT_PX / 1000
    assert (x, width) == (cadence.LABEL_PX + 100 * scale, 400 * scale)
    assert blame == "server"
    assert "nothing arrived" in told
    assert stream.first_x == round(cadence.LABEL_PX + 250.25 * scale, 2)
    assert stream.path.count("M") == 4


def test_thousands_of_pieces_stay_few():
    times = tuple(float(at) for at in range(5000))
    source = calls.source()
    requests = source.tables.requests.assign(sent_ns=0.0)
    chunks = documents.rows("chunks", [{"request": 5, "number": 0, "at_ns": at * 1e6, "bytes": 1} for at in times])
    (kept,) = cadence.pieces(replace(source.tables, requests=requests, chunks=chunks)).values()
    assert len(kept) <= 400


def test_no_streams():
    assert cadence.draw(calls.source().document(), {}) is None
