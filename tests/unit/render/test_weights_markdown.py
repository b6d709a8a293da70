# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from netdiag.render import Options
from netdiag.render.weights_markdown import render
from netdiag.units import UNKNOWN
from tests.fakes import loads


def lines(document):
    return render(document, Options()).splitlines()


def row_of(document, name):
    (found,) = (line for line in lines(document) if line.startswith("|") and name in line)
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", found)[1:-1]]


def test_the_cause_comes_before_the_tables():
    text = lines(loads.document())
    assert text[0].startswith("# load.py, 10.0 s, ")
    cause = next(n for n, line in enumerate(text) if "`weights.readahead-small`" in line)
    assert text[cause].startswith("- **critical** ")
    assert cause < text.index("| part | time | share |")


def test_a_file_has_one_row_with_its_requests():
    document = loads.document()
    cells = row_of(document, "/models/m.safetensors")
    assert cells[:5] == ["/models/m.safetensors", "1.07 GB", "100 %", "forward", "4,096"]


def test_what_is_unknown_is_a_dash():
    cells = row_of(loads.document(loads.load()), "/models/m.safetensors")
    assert cells[2:] == [UNKNOWN] * 4


@pytest.mark.parametrize("name", ["a|b", "a`b", "<script>", "a\x1b[31mb", "a\nb|", "a\\|b"])
def test_names_of_files_cannot_leave_their_cell(name):
    document = loads.document(loads.load(files=[loads.file(path=f"/models/{name}")]))
    text = render(document, Options())
    assert "\x1b" not in text
    assert not re.search(r"(?<!\\)<", text)
    assert [len(row_of(document, "/models/"))] == [6]
    assert not re.search(r"(?<!\\)`", row_of(document, "/models/")[0])


def test_a_load_that_was_not_seen_has_no_tables():
    text = render(loads.document(loads.load(threads=[], files=[])), Options())
    assert "|" not in text
    assert text.startswith("# ")


def test_what_was_measured_is_told_with_its_state():
    row = {"code": "weights.readahead-small", "file": "/m", "bytes": 1, "state": "cold", "before": "mmap, forward",
           "after": "pread of 16 MiB", "before_ms": 200.0, "after_ms": 50.0}  # fmt: skip
    told = [line for line in lines(loads.document(verified=[row])) if "verified" in line]
    assert told == ["- verified `weights.readahead-small`, cold: 200 ms → 50 ms; mmap, forward → pread of 16 MiB"]
