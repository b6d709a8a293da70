# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import io
import json

import pytest

from netdiag.render import Options
from netdiag.render.weights import FORMATS, render
from netdiag.values import dumps
from tests.fakes import loads


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_ends_with_a_line_feed(name):
    text = render(name, loads.document(), Options(rows="files"))
    assert text.endswith("\n")
    assert "m.safetensors" in text


def test_json_is_the_document():
    document = loads.document()
    assert json.loads(render("json", document, Options())) == json.loads(dumps(document))


def test_ndjson_has_a_line_for_each_row_and_loses_nothing():
    document = json.loads(dumps(loads.document()))
    lines = [json.loads(line) for line in render("ndjson", document, Options()).splitlines()]
    kinds = [line.pop("kind") for line in lines]
    assert (kinds[0], kinds[-1]) == ("weights", "summary")
    assert [line for kind, line in zip(kinds, lines, strict=True) if kind == "file"] == document["files"]
    assert [line for kind, line in zip(kinds, lines, strict=True) if kind == "finding"] == document["findings"]
    assert set(document) == {*lines[0], "threads", "files", "curve", "findings", "ignored", "summary"}


def test_csv_has_the_files_whatever_list_is_wanted():
    tensors = ({"name": "a", "bytes": 1, "resident": None},)
    document = loads.document(loads.load(files=[loads.file(tensors=tensors), loads.file(inode=8)]))
    rows = list(csv.DictReader(io.StringIO(render("csv", document, Options()))))
    assert [row["path"] for row in rows] == ["/models/m.safetensors"] * 2
    assert "tensors" not in rows[0]


@pytest.mark.parametrize("name", ["html", "", "tables"])
def test_other_formats_are_refused(name):
    with pytest.raises(ValueError, match="no format"):
        render(name, loads.document(), Options())
