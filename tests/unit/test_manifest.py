# SPDX-License-Identifier: Apache-2.0
"""Manifests describe every member of every record, and nothing else; a mistake in one is named."""

from __future__ import annotations

import re

import pytest

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable
from netdiag.manifest import UNITS, derived, load, probes
from netdiag.testing import struct_layout
from netdiag.units import unit_of_type

MINIMAL = """
schema = 1
name = "x"
title = "X"
help = "Records x."
object = "x"
default = true
kernel = "5.12"
capabilities = ["CAP_BPF"]
[[attach]]
program = "run"
section = "tp_btf/run"
gives = "everything"
[[streams]]
number = 9
name = "x"
struct = "x_event"
map = "events"
[streams.columns.time]
title = "at"
help = "When."
"""
STREAMS = [stream for probe in probes() for stream in probe.streams]


def written(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_text(text)
    return path


def test_the_smallest_manifest(tmp_path):
    probe = load(written(tmp_path, MINIMAL))
    assert (probe.name, probe.default, probe.capabilities) == ("x", True, ("CAP_BPF",))
    assert (probe.attach[0].program, probe.attach[0].required) == ("run", False)
    column = probe.streams[0].column("time")
    assert (column.title, column.unit, column.display, column.values) == ("at", None, True, {})
    with pytest.raises(KeyError):
        probe.streams[0].column("nope")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("schema = 1", "schema = 2", "x.toml: schema is not 1"),
        ('title = "X"', "", "x.toml: title is missing"),
        ('title = "X"', 'title = "X"\ntitel = "Y"', "x.toml: titel is unknown; allowed are schema, name, title"),
        ("default = true", "default = 1", "x.toml: default is no true or false"),
        ('capabilities = ["CAP_BPF"]', "capabilities = [1]", "x.toml: capabilities is no list of texts"),
        ("number = 9", 'number = "9"', r"x.toml: streams\[0\].number is no whole number"),
        ('help = "When."', 'help = "When."\nunits = "ns"', r"streams\[0\].columns.time.units is unknown; allowed are"),
        ('help = "When."', 'help = "When."\nunit = "furlong"', r"streams\[0\].columns.time.unit is none of instant"),
        ('help = "When."', 'help = "When."\nvalues = { a = "b" }', "values does not map whole numbers"),
        ("[[attach]]", "[attach]", "x.toml: attach is no list"),
        ("schema = 1", "schema = ", "x.toml: "),
    ],
)
def test_a_mistake_is_named_with_file_key_and_what_is_allowed(tmp_path, old, new, words):
    with pytest.raises(InputUnreadable, match=words):
        load(written(tmp_path, MINIMAL.replace(old, new, 1)))


def test_a_missing_manifest_is_named(tmp_path):
    with pytest.raises(InputUnreadable, match=r"none\.toml"):
        load(tmp_path / "none.toml")


def test_other_tables_beside_the_manifests_are_no_probes(tmp_path):
    written(tmp_path, MINIMAL)
    (tmp_path / "facts.toml").write_text('schema = 1\n[[library]]\nname = "curl"\n')
    assert [probe.name for probe in probes(tmp_path)] == ["x"]


def test_two_streams_cannot_have_one_number(tmp_path):
    written(tmp_path, MINIMAL)
    (tmp_path / "y.toml").write_text(MINIMAL)
    with pytest.raises(InputUnreadable, match="one number"):
        probes(tmp_path)


def test_streams_that_attach_nothing_are_no_probe(tmp_path):
    written(tmp_path, MINIMAL)
    made = "".join(MINIMAL.partition("[[streams]]")[1:]).replace("number = 9", "number = 10").replace('"x"', '"y"')
    (tmp_path / "y.toml").write_text('schema = 1\nname = "y"\ntitle = "Y"\nhelp = "Y."\nobject = "y"\n' + made)
    assert [probe.name for probe in probes(tmp_path)] == ["x"]
    assert [stream.name for stream in derived(tmp_path)] == ["y"]
    assert {"http_request", "http_chunk"} <= {stream.name for stream in derived()}
    assert not {stream.number for stream in derived()} & {stream.number for stream in STREAMS}


@pytest.mark.parametrize("stream", [*STREAMS, *derived()], ids=lambda stream: stream.name)
def test_columns_are_exactly_the_members_of_the_struct(stream):
    layout = struct_layout(stream.struct)
    assert [column.name for column in stream.columns] == [field.name for field in layout.fields]
    for column, field in zip(stream.columns, layout.fields, strict=True):
        unit = column.unit or unit_of_type(field.type)
        assert unit in UNITS
        assert column.values or unit not in {"enum", "flags"}, column.name
        assert len(column.title) <= 24
        assert column.help.endswith(".")


def with_includes(path):
    """Return the text of a source and of our headers that it includes."""
    texts, waiting = {}, [path]
    while waiting:
        path = waiting.pop()
        if path not in texts:
            texts[path] = path.read_text()
            names = re.findall(r'^#include "(?:netdiag/)?([^"]+)"', texts[path], flags=re.MULTILINE)
            waiting += [data_dir("bpf") / "include" / "netdiag" / name for name in names]
    return "".join(texts.values())


@pytest.mark.parametrize("probe", probes(), ids=lambda probe: probe.name)
def test_programs_are_exactly_those_of_the_source(probe):
    source = with_includes(data_dir("bpf") / f"{probe.object}.bpf.c")
    found = re.findall(r'^SEC\("([^"]+)"\)\s+int (?:BPF_PROG\()?(\w+)', source, flags=re.MULTILINE)
    assert {(each.section, each.program) for each in probe.attach} == set(found)
    assert any(each.required for each in probe.attach)


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_the_ring_is_in_the_source(stream):
    folder = data_dir("bpf")
    text = "".join(path.read_text() for path in sorted(folder.rglob("*.[ch]")))
    assert f"ND_RING({stream.map}," in text


def test_enum_values_are_those_of_the_header():
    text = (data_dir("bpf") / "include" / "netdiag" / "event.h").read_text()
    enums = {
        name: {int(value) for value in re.findall(r"= (\d+)", body)}
        for name, body in re.findall(r"enum (nd_\w+) \{(.*?)\};", text, flags=re.DOTALL)
    }
    columns = {(stream.name, column.name): set(column.values) for stream in STREAMS for column in stream.columns}
    for key, enum in {
        ("tcp", "kind"): "nd_tcp_kind",
        ("tcp", "role"): "nd_role",
        ("tcp", "closed_by"): "nd_side",
        ("tcp", "close"): "nd_close",
        ("tcp", "flags"): "nd_tcp_flags",
        ("tcp_io", "direction"): "nd_direction",
        ("tcp_io", "flags"): "nd_io_flags",
        ("process", "kind"): "nd_process_kind",
    }.items():
        assert columns[key] == enums[enum], key
