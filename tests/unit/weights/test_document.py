# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import jsonschema
import pytest

from netdiag.assets import data_dir
from netdiag.weights.document import SCHEMA, build
from netdiag.weights.examine import examine
from netdiag.weights.surroundings import Memory
from tests.fakes import loads
from tests.fakes.loads import GIB, MIB, NO_LIMIT


def document(made=None, **more):
    read = (made or loads.builder()).recording(end_at=2_000.0)
    examined = examine(read, memory=NO_LIMIT)
    return build(read, examined.load, examined.memory, examined.findings, **more)


def of(load, memory=NO_LIMIT):
    return build(loads.builder().recording(), load, memory, ())


def test_it_fits_its_schema():
    schema = json.loads((data_dir("reports") / "schemas" / "netdiag.weights-1.json").read_text())
    whole = document(missing=[("GPU", "no driver")])
    assert whole["schema"] == SCHEMA
    jsonschema.validate(whole, schema)
    jsonschema.validate(of(loads.load(threads=[], files=[])), schema)


def test_figures_are_those_of_the_recording():
    whole = document()
    assert whole["command"] == {"argv": ["python3", "load.py"], "exit_status": 0}
    assert whole["summary"]["wall_ms"] == 2_000.0
    assert (whole["summary"]["blocked_share"], whole["summary"]["cached_share"]) == (0.5, 0.5)
    (file,) = whole["files"]
    assert (file["bytes"], file["requests"][0]["mean_bytes"], file["requests"][0]["depth"]) == (64 * MIB, 131_072, 2.0)
    assert sum(row["ms"] for row in whole["load"]["time"]) == pytest.approx(2_000.0)


def test_nothing_seen_is_unknown_and_not_zero():
    whole = of(loads.load(threads=[], files=[]))
    assert whole["load"] is whole["limit"] is whole["restart"] is whole["copies"] is None
    assert whole["summary"] == {
        "wall_ms": None, "bytes": 0, "files": 0, "blocked_share": None, "cached_share": None,
    }  # fmt: skip
    assert whole["tier"]["share_of_wall"] is None


def test_what_is_missing_is_told_with_its_reason():
    probes = ({"name": "weights", "state": "attached"}, {"name": "process", "state": "failed", "reason": "no BTF"})
    found = build(loads.builder().recording(), loads.load(probes=probes), NO_LIMIT, (), missing=[("GPU", "no driver")])
    assert found["tier"]["missing"] == [{"what": "GPU", "why": "no driver"}, {"what": "process", "why": "no BTF"}]


@pytest.mark.parametrize(
    ("blocked", "samples", "begins"),
    [
        ({"fault": 6_000.0}, {}, "the source of the files: 6.00 s"),
        ({"ioctl": 6_000.0}, {}, "copies to the GPU"),
        ({"fault": 2_900.0}, {}, None),
    ],
)
def test_the_stage_that_takes_most(blocked, samples, begins):
    limit = of(loads.load([loads.thread(blocked=blocked, samples=samples)]))["limit"]
    assert limit is None if begins is None else limit.startswith(begins)


@pytest.mark.parametrize(
    ("kept", "words"), [(GIB, "is warm"), (GIB // 2, "is partly warm"), (GIB // 10, "is cold"), (None, None)]
)
def test_the_next_load(kept, words):
    restart = of(loads.load(files=[loads.file(cached_after=kept)]))["restart"]
    assert restart is None if words is None else restart["says"].endswith(words)


def test_a_limit_counts_where_the_files_do_not_fit():
    load = loads.load(files=[loads.file(cached_after=GIB // 2)])
    for limit, told in ((GIB // 2, True), (2 * GIB, False)):
        says = of(load, Memory(total=None, available=None, limit=limit))["restart"]["says"]
        assert ("memory limit" in says) is told


def test_a_file_that_two_processes_share_is_kept_once():
    both = [loads.file(cached_after=GIB), loads.file(pid=101, cached_after=GIB)]
    assert of(loads.load(files=both))["restart"]["bytes"] == GIB
