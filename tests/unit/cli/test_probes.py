# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from netdiag import manifest
from tests.fakes.commands import call


def test_the_list_names_every_probe(capsys):
    called = call(capsys, "probes")
    assert called.status == 0
    assert all(probe.name in called.out for probe in manifest.probes())
    assert max(len(line) for line in called.out.splitlines()) <= 80


def test_one_probe_shows_every_attach_point_and_column(capsys):
    called = call(capsys, "probes", "tcp")
    (probe,) = [probe for probe in manifest.probes() if probe.name == "tcp"]
    assert all(attach.section in called.out for attach in probe.attach)
    assert all(column.name in called.out for stream in probe.streams for column in stream.columns)
    assert max(len(line) for line in called.out.splitlines()) <= 80


def test_json(capsys):
    called = call(capsys, "probes", "tcp", "--format", "json")
    (probe,) = json.loads(called.out)
    assert probe["name"] == "tcp"
    assert probe["attach"]


def test_an_unknown_probe(capsys):
    called = call(capsys, "probes", "tpc")
    assert called.status == 2
    assert "tcp" in called.err
