# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet
import pytest

from netdiag.export import columns, parquet
from netdiag.values import dumps
from tests.fakes import calls, documents

ROOT = Path(__file__).resolve().parents[3]


def ask(query):
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def lake(tmp_path):
    parquet.write(calls.source(), tmp_path)
    return tmp_path


def test_pandas_reads_every_number_exactly(lake):
    source = calls.source()
    read = pd.read_parquet(lake / "requests").sort_values("started").reset_index(drop=True)
    expected = source.document()["requests"]
    assert len(read) == len(expected)
    for column in columns.SCHEMAS["requests"]:
        if column.kind not in {"ms", "int"} or column.source.startswith("stream."):
            continue
        found = [None if np.isnan(value) else value for value in read[column.name].astype(float)]
        assert found == [row[column.name] for row in expected], column.name
    streamed = read[read["stream_kind"] == "sse"].iloc[0]
    assert streamed["stream_first_token_ms"] == 250.25
    assert streamed["stream_stalls"] == dumps(expected[5]["stream"]["stalls"])
    assert [at.isoformat()[:26] for at in read["started"]] == [row["started"][:26] for row in expected]
    assert [at.nanosecond for at in read["started"]] == [int(row["started"][26:29]) for row in expected]


def test_duckdb_sees_partitions_and_types(lake):
    query = f"""SELECT host, date, count(*), sum(total_ms) FROM read_parquet('{lake}/requests/**/*.parquet',
        hive_partitioning = true) GROUP BY ALL ORDER BY host"""
    rows = ask(query)
    assert [(row[0], str(row[1]), row[2]) for row in rows] == [
        ("198.51.100.7", "2026-11-18", 5),
        ("api.example.com", "2026-11-18", 2),
    ]
    assert rows[0][3] == 5 * 46.0
    assert len(ask(f"SELECT * FROM read_parquet('{lake}/processes/**/*.parquet', hive_partitioning = true)")) == 1


def test_polars_reads_all_lists(lake):
    for kind in ("requests", "connections", "processes", "findings"):
        frame = pl.read_parquet(f"{lake}/{kind}/**/*.parquet", hive_partitioning=True)
        assert len(frame) == calls.source().count(kind)
        assert frame.columns[: len(columns.SCHEMAS[kind])] == [column.name for column in columns.SCHEMAS[kind]]
    assert pl.read_parquet(f"{lake}/processes/**/*.parquet", hive_partitioning=True)["host"].to_list() == [None]


def test_the_schema_on_disk_is_the_documented_one(lake):
    text = (ROOT / "docs" / "schemas.md").read_text().partition("## Exports")[2]
    for kind, wanted in columns.SCHEMAS.items():
        found = re.search(rf"^\| `{kind}` \| (.+?) \|$", text, re.MULTILINE)
        assert found, f"{kind} is not in docs/schemas.md"
        told = re.findall(r"`([a-z0-9_]+)` ([a-z]+)", found[1])
        assert told == [(column.name, column.kind) for column in wanted], kind
    for file in lake.rglob("*.parquet"):
        kind = file.relative_to(lake).parts[0]
        assert pyarrow.parquet.read_schema(file).equals(parquet.arrow_schema(kind))


def test_an_empty_column_has_its_type(tmp_path):
    only = replace(calls.source(), tables=documents.tables([documents.connection(1, cookie=2**62 + 1)]), stalls={})
    parquet.write(only, tmp_path)
    (file,) = (tmp_path / "connections").rglob("*.parquet")
    table = pyarrow.parquet.read_table(file)
    assert table["cookie"].to_pylist() == [2**62 + 1]
    assert table["rtt_ms"].to_pylist() == [3.9]
    assert table["handshake"].to_pylist() == [None]
    assert not (tmp_path / "requests").exists()


def test_writing_again_replaces_and_another_recording_joins(lake):
    before = sorted(lake.rglob("*.parquet"))
    parquet.write(calls.source(), lake)
    assert sorted(lake.rglob("*.parquet")) == before
    other = documents.recording(header={**documents.recording().header, "clock": {
        "monotonic_ns": 1, "realtime_ns": documents.START_NS + 10**9, "boottime_ns": 1}})  # fmt: skip
    parquet.write(calls.source(recording=other), lake)
    assert len(list(lake.rglob("*.parquet"))) == 2 * len(before)
    assert not list(lake.rglob("*.partial"))


def test_days_are_those_of_the_events(tmp_path):
    late = [documents.connection(1, 0.0), documents.connection(2, 86_400_000.0)]
    parquet.write(replace(calls.source(), tables=documents.tables(late), stalls={}), tmp_path)
    days = {path.parent.name for path in (tmp_path / "connections").rglob("*.parquet")}
    assert days == {"date=2026-11-18", "date=2026-11-19"}


def test_hostile_names_stay_inside_the_folder(tmp_path):
    parquet.write(calls.source(hostile="../../../etc/<x>=1&'\udcff"), tmp_path / "lake")
    assert {path.name for path in tmp_path.iterdir()} == {"lake"}
    depths = {len(path.relative_to(tmp_path / "lake").parts) for path in (tmp_path / "lake").rglob("*.parquet")}
    assert depths == {4}
    assert "../../../etc/<x>=1&'\\xff" in set(pd.read_parquet(tmp_path / "lake" / "requests")["host"])


@pytest.mark.parametrize("letter", ["a", "ü", "\U0001f600", "<"])
def test_names_longer_than_a_file_system_takes_stay_apart(tmp_path, letter):
    names = [letter * 300 + end for end in ("x", "y")]
    pieces = {parquet._piece(name) for name in names}
    assert len(pieces) == 2
    assert max(len(piece) for piece in pieces) < 250
    parquet.write(calls.source(hostile=names[0]), tmp_path)
    assert parquet._piece(names[0]) in {path.name.removeprefix("host=") for path in (tmp_path / "requests").iterdir()}
