# SPDX-License-Identifier: Apache-2.0
"""The comparison of netdiag's word with the server's."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from netdiag.lab.facts import TrueClose, TrueConnection, Truth
from netdiag.lab.judge import compare
from netdiag.lab.scenarios import Expectation

PORT = 8443
CODE = "reuse.server-close"


def truth():
    connections = [
        TrueConnection(
            number=n,
            peer_port=4000 + n,
            accepted=0,
            requests=({"n": 1},),
            close=TrueClose(by="server", why="last answer", at=9),
        )
        for n in (1, 2)
    ]
    return Truth(connections=tuple(connections), handshakes=0, requests=2)


def document():
    connection = {
        "role": "client",
        "remote": {"port": PORT},
        "outcome": "established",
        "closed_by": "remote",
        "close": "fin",
        "requests": 1,
    }
    finding = {
        "code": CODE,
        "severity": "warning",
        "confidence": 0.9,
        "cause": "header",
        "cost_ms": 4.0,
        "count": 2,
        "of": 2,
    }
    return {
        "schema": "netdiag.trace/1",
        "coverage": {"events": [{"probe": "tcp", "seen": 9, "lost": 0}]},
        "connections": [{**connection, "id": f"c{n}", "local": {"port": 4000 + n}} for n in (1, 2)],
        "findings": [{**finding, "learned": {"value": 2.0}}],
    }


EXPECT = Expectation(
    first=CODE,
    codes=(CODE,),
    causes={CODE: "header"},
    values=({"code": CODE, "is": 2, "within": 0.1},),
    requests=True,
    outcomes={"established": 2},
)


def test_what_is_right_passes():
    assert compare(document(), truth(), PORT, EXPECT) == []


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("schema",), "other", "schema is"),
        (("coverage", "events", 0, "lost"), 3, "lost 3 events"),
        (("coverage", "events", 0, "seen"), 0, "no probe saw"),
        (("connections", 0, "local", "port"), 5555, "local port 5555: in the document, never accepted"),
        (("connections", 0, "outcome"), "refused", "1 established, the server accepted 2"),
        (("connections", 1, "closed_by"), "local", "truly remote: last answer"),
        (("connections", 1, "closed_by"), None, "closed_by None"),
        (("connections", 1, "requests"), 2, "carried 2 requests, truly 1"),
        (("findings", 0, "severity"), "info", "only as info"),
        (("findings", 0, "code"), "reuse.other", "nearest: reuse.other"),
        (("findings", 0, "cause"), "http/1.0", "with cause header expected"),
        (("findings", 0, "learned", "value"), 3.0, "truly 2"),
        (("findings",), [], "no finding at all"),
    ],
)
def test_each_difference_is_named(path, value, says):
    changed = copy.deepcopy(document())
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert says in "\n".join(compare(changed, truth(), PORT, EXPECT))


def test_a_healthy_run_must_be_silent():
    quiet = Expectation(quiet=True)
    assert "nothing is wrong" in "\n".join(compare(document(), truth(), PORT, quiet))
    silent = {**document(), "findings": []}
    assert compare(silent, truth(), PORT, quiet) == []


def test_surplus_and_forbidden_codes_are_named():
    other = Expectation(codes=("tcp.reset",), absent=(CODE,))
    text = "\n".join(compare(document(), truth(), PORT, other))
    assert f"also warns of ['{CODE}']" in text
    assert f"says {CODE}, which is not so" in text
    allowed = Expectation(codes=("tcp.reset",), allowed=(CODE,))
    assert "also warns" not in "\n".join(compare(document(), truth(), PORT, allowed))


def test_one_of_two_codes_is_enough():
    assert compare(document(), truth(), PORT, Expectation(either=("tcp.reset", CODE))) == []
    other = Expectation(either=("tcp.reset", "reuse.cancelled"))
    assert "none of" in "\n".join(compare(document(), truth(), PORT, other))


def test_counts_can_be_left_out():
    fewer = {**document(), "connections": []}
    assert compare(fewer, truth(), PORT, Expectation(codes=(CODE,), counts=False)) == []


@pytest.mark.parametrize(
    ("told", "true", "miss"),
    [
        (("TLSv1.3", True), ("TLSv1.3", True), None),
        (("TLSv1.3", None), ("TLSv1.3", False), "truly ('TLSv1.3', False)"),
        (None, ("TLSv1.2", False), "(version, resumed) None"),
        (("TLSv1.2", False), None, "truly None"),
    ],
)
def test_handshakes_are_compared_where_records_were_traced(told, true, miss):
    made = document()
    handshake = {"connection": "c1", "outcome": "completed"}
    made["handshakes"] = [handshake | dict(zip(("version", "resumed"), told, strict=True))] if told else []
    first, second = truth().connections
    fact = dict(zip(("version", "resumed"), true, strict=True)) if true else None
    facts = replace(truth(), connections=(replace(first, handshake=fact), second))
    assert compare(made, facts, PORT, EXPECT) == []
    made["coverage"]["events"].append({"probe": "tls_record", "seen": 9, "lost": 0})
    misses = compare(made, facts, PORT, EXPECT)
    assert [miss in line for line in misses] == ([True] if miss else [])
