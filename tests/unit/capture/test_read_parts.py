# SPDX-License-Identifier: Apache-2.0
"""What a file tells does not depend on the parts in which it is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netdiag import capture, tables
from netdiag.analysis import Options, examine
from netdiag.capture import container
from netdiag.document import build
from netdiag.render import Options as Forms
from netdiag.render import render

CAPTURES = Path(__file__).resolve().parents[2] / "captures"
NAMES = (
    "own_openai_429_ra1", "own_server_idle3_gap4.2", "own_sse_plain_stall1.5s", "own_tls13_0rtt_accepted",
    "own_tls13_hrr_full_then_psk",
)  # fmt: skip


def told(data: bytes) -> object:
    recording = capture.read(data)
    built = tables.build(recording)
    text = render("json", build(recording, built, examine(built, Options()).findings), Forms())
    document = json.loads(text)
    del document["coverage"]["events"]  # how many records it took
    return document


@pytest.mark.parametrize("name", NAMES)
def test_parts_do_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (CAPTURES / f"{name}.pcap").read_bytes()
    whole = told(data)
    for size in (1999, 6007):
        monkeypatch.setattr(container, "_CHUNK", size)
        assert told(data) == whole
