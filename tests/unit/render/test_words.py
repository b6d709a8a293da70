# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.render import Options, render, words
from netdiag.summary import PARTS
from tests.fakes import documents


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (None, 0, "–"),
        (0.0, 0, "0 %"),
        (0.001, 0, "<1 %"),
        (0.00001, 1, "<0.1 %"),
        (0.999, 0, ">99 %"),
        (0.9999, 1, ">99.9 %"),
        (1.0, 0, "100 %"),
        (0.123, 1, "12.3 %"),
    ],
)
def test_a_share_never_rounds_to_nothing_or_to_all(share, digits, text):
    assert words.percent(share, digits) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "– s"), (0.0, "0.0 s"), (41.0, "41 ms"), (61_400.0, "61.4 s"), (3_725_000.0, "62 min 5 s")],
)
def test_seconds(value, text):
    assert words.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "– requests"), (1, "1 request"), (0, "0 requests"), (2000, "2,000 requests")]
)
def test_plural(value, text):
    assert words.plural(value, "request") == text


def test_addresses():
    assert words.address("192.0.2.1", 443) == "192.0.2.1:443"
    assert words.address("2001:db8::1", 443) == "[2001:db8::1]:443"
    assert words.address(None, 443) == "–:443"
    assert words.address("192.0.2.1", None) == "192.0.2.1"
    assert words.name_of("api.example", 443) == "api.example"
    assert words.endpoint({"ip": "192.0.2.1", "port": 80, "name": "api.example"}) == "api.example:80"


def test_every_part_of_the_summary_has_a_name():
    assert set(words.PARTS) == {part for part, _ in PARTS}


def test_what_was_traced():
    document = documents.document()
    assert words.command(document) == "python app.py"
    document["command"] = None
    assert words.command(document) == "the whole machine"
    document["target"] = {"pids": [1, 2], "follow": True, "exe": None, "hosts": ["192.0.2.1/32"], "port": 80}
    assert words.command(document) == "pid 1,2, port 80, host 192.0.2.1/32"
    document["target"]["names"] = {"192.0.2.1": "api.example"}
    assert words.command(document) == "pid 1,2, port 80, host api.example"


def test_what_was_traced_lasted_as_long_as_the_command_where_there_is_one():
    document = {**documents.document(), "duration_ms": 3000.0}
    for command, lasted in (
        (None, "3.0 s"),
        ({"argv": ["a"], "exit_status": 0, "duration_ms": None}, "3.0 s"),
        ({"argv": ["a"], "exit_status": 0, "duration_ms": 1500.0}, "1.5 s"),
    ):
        assert words.lasted({**document, "command": command}) == lasted


@pytest.mark.parametrize(
    ("reason", "early"),
    [
        ("front-gone", "netdiag was ended"),
        ("recorder-died", "the recorder ended early"),
        ("the recording breaks off at byte 9", "byte 9"),
        ("unknown: the recording has no end, because", "no end"),
        ("command-exited", None),
        ("duration", None),
        ("interrupted", None),
        (None, None),
    ],
)
def test_every_form_says_that_a_recording_ends_early(reason, early):
    document = {**documents.document(), "exit_reason": reason, "findings": []}
    said = words.breaks_off(document)
    assert (said is None) if early is None else (early in str(said))
    for form in ("table", "markdown", "html"):
        text = render(form, document, Options())
        assert ("what came before is used" in text) is (early is not None)
    assert ("in the part that was recorded" in render("table", document, Options())) is (early is not None)


@pytest.mark.parametrize(
    ("said", "shown"), [((40.0, 60.0), "it says 100 ms"), ((40.0, None), "kernel"), ((), "kernel")]
)
def test_the_servers_own_word_stands_beside_ours_where_it_says_so_of_every_call(said, shown):
    document = documents.document()
    document["requests"] = [{**row, "wait_ms": 70.0} for row in document["requests"][: len(said) or None]]
    for row, value in zip(document["requests"], said, strict=False):
        row["server_reported_ms"] = value
    assert words.sources(document)["server"] == shown


def test_sources_follow_the_requests():
    assert words.sources(documents.document())["server"] == "kernel"


def test_columns_of_seconds():
    assert (words.span(12.34, 200.0), words.unit(200.0)) == ("12.3", "ms")
    assert (words.span(1234.5, 2000.0), words.unit(2000.0)) == ("1,234", "ms")
    assert (words.span(1234.5, 20_000.0), words.unit(20_000.0)) == ("1.23", "s")
    assert words.span(None, 1.0) == "–"


@pytest.mark.parametrize(
    ("shakes", "name"),
    [
        ([], "TLS handshake"),
        ([("TLSv1.3", False), ("TLSv1.3", False)], "TLS handshake (1.3, full)"),
        ([("TLSv1.3", True)], "TLS handshake (1.3, resumed)"),
        ([("TLSv1.2", True), ("TLSv1.3", False)], "TLS handshake (1.2, 1.3, 1 of 2 resumed)"),
        ([("TLSv1.3", None)], "TLS handshake (1.3)"),
        ([(None, None)], "TLS handshake"),
    ],
)
def test_the_tls_part_says_which_version_and_whether_full(shakes, name):
    rows = [{"outcome": "completed", "version": version, "resumed": resumed} for version, resumed in shakes]
    assert words.part("tls", {"handshakes": rows}) == name
    assert words.part("dns", {"handshakes": rows}) == "name look-up"


@pytest.mark.parametrize("cells", [34, 30, 24, 20])
@pytest.mark.parametrize("versions", [["TLSv1.3"], ["TLSv1.2", "TLSv1.3"], ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]])
@pytest.mark.parametrize("number", [1, 80, 9_000])
def test_the_name_of_a_part_is_shortened_by_whole_words(cells, versions, number):
    rows = [
        {"outcome": "completed", "version": versions[at % len(versions)], "resumed": at % 10 == 1}
        for at in range(number * len(versions))
    ]
    name = words.part("tls", {"handshakes": rows}, cells=cells)
    assert len(name) <= cells
    assert name.startswith("TLS")
    assert name.count("(") == name.count(")")
    assert "…" not in name


@pytest.mark.parametrize(
    ("seen", "said"),
    [([], ""), (["wire"], "wire"), (["both"], "wire, library"), (["library", "both", "wire"], "wire, library")],
)
def test_each_source_of_handshakes_is_named_once(seen, said):
    document = {**documents.document(), "handshakes": [{"source": source} for source in seen]}
    assert words.sources(document)["tls"] == said
