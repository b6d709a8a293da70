# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from dataclasses import replace

from netdiag.compare import DEFAULT, build, sample
from netdiag.render import compare
from netdiag.text import cells
from tests.fakes import calls, documents


def document(shift=0.0, name="a"):
    tables = calls.source(calls=400).tables
    slower = replace(tables, requests=tables.requests.assign(total_ms=tables.requests["total_ms"] + shift))
    return build(
        [(sample(tables, [documents.finding()], name=name), sample(slower, [documents.finding()], name="b"))], DEFAULT
    )


def test_the_verdict_comes_first_and_no_line_is_wider_than_a_terminal():
    for found, word in ((document(), "OK  "), (document(40.0), "WORSE  total p99 +15 ms")):
        lines = compare.table(found).splitlines()
        assert lines[0].startswith(word)
        assert max(cells(line) for line in lines) <= 80
    assert any(line.startswith("gate  RAISED  total p99 +15 ms") for line in lines)


def test_too_little_is_no_good_news():
    none = sample(documents.tables([]), [], name="none")
    text = compare.table(build([(none, none)], DEFAULT))
    assert text.startswith("UNKNOWN")
    assert "passed" not in text
    assert "passed" not in compare.markdown(build([(none, none)], DEFAULT))


def test_without_a_gate_nothing_is_called_ok():
    none = sample(documents.tables([]), [], name="none")
    assert compare.table(build([(none, none)], ())).startswith("COMPARED  without a gate")


def test_a_cause_that_only_one_side_could_tell_is_neither_new_nor_gone():
    told = sample(calls.source().tables, [documents.finding()], name="a")
    for sides in ((replace(told, causes=None), told), (told, replace(told, causes=None))):
        found = build([sides], ())
        assert f"  –    reuse.client-per-call  {20 / 7:.1f} ms a call" in compare.table(found)
        assert "- –: `reuse.client-per-call`" in compare.markdown(found)


def test_hostile_names_are_shown_and_not_obeyed():
    found = document(name=calls.HOSTILE * 3)
    assert "\x1b" not in compare.table(found)
    text = compare.markdown(found)
    assert not re.search(r"(?<!\\)<", text)
    assert "\x1b" not in text


def test_color_is_only_color():
    found = document(40.0)
    colored = compare.table(found, color=True)
    assert colored != compare.table(found)
    for code in ("\x1b[1m", "\x1b[31m", "\x1b[0m"):
        colored = colored.replace(code, "")
    assert colored == compare.table(found)


def test_markdown_has_a_table_and_what_was_raised():
    text = compare.markdown(document(40.0))
    assert "| whole call |" in text
    assert "**raised**: total p99 +15 ms" in text
