# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

import netdiag
from netdiag.catalog import GENERIC, catalog, load
from netdiag.errors import InputUnreadable
from netdiag.libraries import rules

PAGE = """
schema = 1
[codes."reuse.x"]
title = "costs {price}"
plain = "happens"
means = "m"
proof = "p"
proof_line = "l"
cost = "c"
refuted = "r"
[[codes."reuse.x".advice]]
library = "generic"
text = "do {value}"
snippet = "f({ a: 1 })"
"""


def test_every_advice_is_for_a_library_that_can_be_detected():
    known = {rule.name for rule in rules()} | {GENERIC}
    named = {remedy.library for entry in catalog().values() for remedy in entry.remedies}
    assert named <= known


@pytest.mark.parametrize("code", sorted(code for code in catalog() if code.startswith(("reuse.", "tcp."))))
def test_every_advice_names_a_setting(code):
    for remedy in catalog()[code].remedies:
        assert remedy.setting, remedy


@pytest.mark.parametrize("library", ["httpx", "requests", "urllib3", "aiohttp", "openai", "anthropic", "node", "go"])
def test_a_client_per_call_is_answered_in_the_librarys_words(library):
    (advice, *_) = catalog()["reuse.client-per-call"].render_advice([library], {})
    assert advice.applies_to == library


def test_a_code_is_marked_just_where_no_module_that_is_used_says_it():
    root = Path(netdiag.__file__).parent
    texts = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.py")}

    def used(path: Path) -> bool:
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        package, _, module = name.rpartition(".")
        asked = re.compile(rf"{re.escape(name)}\b|from {re.escape(package)} import [^\n]*(\(|\b{module}\b)")
        return any(asked.search(text) for other, text in texts.items() if other != path)

    said = "\n".join(text for path, text in texts.items() if used(path))
    said += "\n".join(f'"route.{kind}"' for kind in re.findall(r'\bkind="([a-z-]+)"', said))  # claims puts it together
    silent = {code for code in catalog() if f'"{code}"' not in said}
    assert silent == {code for code, entry in catalog().items() if entry.unsaid}


def test_values_are_filled_in_and_code_is_left_alone(tmp_path):
    path = tmp_path / "reuse.toml"
    path.write_text(PAGE)
    entry = load(path)["reuse.x"]
    assert entry.render(entry.title, {"price": "5 s"}) == "costs 5 s"
    (advice,) = entry.render_advice([], {"value": "it"})
    assert (advice.text, advice.snippet, advice.applies_to) == ("do it", "f({ a: 1 })", None)
    assert entry.render("{nobody}", {}) == "?"


@pytest.mark.parametrize("code", sorted(catalog()))
def test_explanations_name_what_only_a_run_knows(code):
    entry = catalog()[code].in_general()
    texts = [entry.title, entry.plain, entry.proof_line]
    texts += [text for remedy in entry.remedies for text in (remedy.text, remedy.value, remedy.snippet) if text]
    assert [text for text in texts if re.search(r"\{[a-z_]+\}", text)] == []


def test_guesses_come_before_the_generic_advice_and_loaded_libraries_instead_of_it():
    entry = catalog()["reuse.client-per-call"]
    guessed = [advice.applies_to for advice in entry.render_advice([], {}, guesses=["httpx"])]
    loaded = [advice.applies_to for advice in entry.render_advice(["requests"], {}, guesses=["httpx"])]
    assert (guessed, loaded) == (["httpx", None], ["requests"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("schema = 1", "schema = 2"), "schema 2"),
        (("schema = 1", "schema = "), "Invalid"),
        (('means = "m"\n', ""), "means is missing"),
        (('means = "m"', "means = 3"), "means is missing"),
        (('cost = "c"', 'cost = "c"\ncolour = "red"'), "unknown colour"),
        (('"generic"', '"httpx"'), "no advice for library"),
        (('text = "do {value}"', 'text = "do"\nvalue = 3'), "are texts"),
        (('refuted = "r"', 'refuted = "r"\nuse = "nothing"'), "no remedies called nothing"),
        (('refuted = "r"', 'refuted = "r"\nunsaid = 1'), "unsaid is missing"),
        (("reuse.x", "tcp.x"), "belongs into tcp.toml"),
        (("[codes.", "[others."), "codes is missing"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, change, message):
    path = tmp_path / "reuse.toml"
    path.write_text(PAGE.replace(*change))
    with pytest.raises(InputUnreadable, match=re.escape(message)):
        load(path)


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(InputUnreadable, match=r"none\.toml"):
        load(tmp_path / "none.toml")


def test_never_more_than_two_pieces_of_advice():
    for entry in catalog().values():
        libraries = sorted({remedy.library for remedy in entry.remedies} - {"generic"})
        for advice in (entry.render_advice(libraries, {}), entry.render_advice([], {}, guesses=libraries)):
            assert 1 <= len(advice) <= 2


def test_of_the_guesses_the_most_likely_one_and_the_general_advice():
    entry = catalog()["reuse.client-per-call"]
    advice = entry.render_advice(["none"], {}, guesses=["httpx", "urllib3"])
    assert [one.applies_to for one in advice] == ["httpx", None]


@pytest.mark.parametrize("code", sorted(catalog()))
def test_what_a_code_is_called_in_general_is_a_sentence(code):
    plain = catalog()[code].in_general().plain
    assert re.search(r"[a-z]{2,} .*[a-z]{2,}", plain), plain
    assert not plain.endswith(".")
