# SPDX-License-Identifier: Apache-2.0
"""Compares what netdiag said with what the server knows; every difference is one line with the nearest miss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from netdiag.lab.facts import TrueConnection, Truth
from netdiag.lab.scenarios import Expectation

__all__ = ["compare"]

SIDES = {"server": "remote", "client": "local"}
Document = Mapping[str, Any]


def compare(document: Document, truth: Truth, port: int, expect: Expectation) -> list[str]:
    """Return what is wrong, empty when all is as it should be. `port` is the one that the client was told."""
    mine = [entry for entry in document["connections"] if entry["role"] == "client" and entry["remote"]["port"] == port]
    misses = sound(document)
    if expect.counts:
        misses += connections(mine, truth, expect)
        misses += handshakes(document, mine, truth)
    for outcome, least in (expect.outcomes or {}).items():
        found = Counter(entry["outcome"] for entry in document["connections"])
        if found[outcome] < least:
            misses.append(f"outcome {outcome}: at least {least} connections expected, found {dict(found)}")
    return misses + findings(document["findings"], expect)


def sound(document: Document) -> list[str]:
    """Check what holds for every document: its schema, and that nothing was lost."""
    misses = [] if document["schema"] == "netdiag.trace/1" else [f"schema is {document['schema']!r}"]
    events = document["coverage"]["events"]
    misses += [f"probe {entry['probe']} lost {entry['lost']} events" for entry in events if entry["lost"]]
    if not any(entry["seen"] for entry in events):
        misses.append("no probe saw an event")
    return misses


def connections(mine: Sequence[Document], truth: Truth, expect: Expectation) -> list[str]:
    """Compare number, local ports, closing sides and requests of the client's connections with the server's facts."""
    established = {entry["local"]["port"]: entry for entry in mine if entry["outcome"] == "established"}
    true = {entry.peer_port: entry for entry in truth.connections}
    misses = []
    count = sum(entry["outcome"] == "established" for entry in mine)
    if count != len(truth.connections):
        misses.append(f"connections: {count} established, the server accepted {len(truth.connections)}")
    misses += [f"local port {port}: accepted, not in the document" for port in sorted(set(true) - set(established))]
    misses += [f"local port {port}: in the document, never accepted" for port in sorted(set(established) - set(true))]
    for port in sorted(set(true) & set(established)):
        misses += one(established[port], true[port], expect)
    return misses


def handshakes(document: Document, mine: Sequence[Document], truth: Truth) -> list[str]:
    """Compare completed handshakes with the server's, where records of TLS were traced."""
    if not any(entry["probe"] == "tls_record" and entry["seen"] for entry in document["coverage"]["events"]):
        return []
    told = {entry["connection"]: entry for entry in document["handshakes"] if entry["outcome"] == "completed"}
    true = {entry.peer_port: entry.handshake for entry in truth.connections}
    misses = []
    for connection in mine:
        fact, found = true.get(connection["local"]["port"]), told.get(connection["id"])
        here = None if found is None else (found["version"], found["resumed"])
        there = None if fact is None else (fact["version"], fact["resumed"])
        if here != there:
            misses.append(f"{connection['id']} handshake (version, resumed) {here}, truly {there}")
    return misses


def one(told: Document, fact: TrueConnection, expect: Expectation) -> list[str]:
    """Compare who closed one connection, and how many requests it carried."""
    misses = []
    close = fact.close
    if expect.closes and close is not None and told["closed_by"] != SIDES[close.by]:
        when = f"{close.why} at {(close.at - fact.accepted) / 1e6:.1f} ms of its life"
        misses.append(f"{told['id']} closed_by {told['closed_by']} ({told['close']}), truly {SIDES[close.by]}: {when}")
    if expect.requests and told["requests"] != len(fact.requests):
        misses.append(f"{told['id']} carried {told['requests']} requests, truly {len(fact.requests)}")
    return misses


def findings(found: Sequence[Document], expect: Expectation) -> list[str]:
    """Compare the findings with what the scenario expects of them."""
    codes = [entry["code"] for entry in found]
    loud = [entry["code"] for entry in found if entry["severity"] != "info"]
    misses = [missing(code, found) for code in expect.codes if code not in (codes if code in expect.quietly else loud)]
    misses += [f"says {code}, which is not so" for code in expect.absent if code in codes]
    if expect.either and not set(expect.either) & set(loud):
        misses.append(f"none of {list(expect.either)} is said aloud: {missing(expect.either[0], found)}")
    if expect.first is not None and loud[:1] != [expect.first]:
        misses.append(f"leads with {loud[:1]}, not with {expect.first}")
    for code, cause in (expect.causes or {}).items():
        causes = [entry["cause"] for entry in found if entry["code"] == code]
        if cause not in causes:
            misses.append(f"{code} with cause {cause} expected, causes are {causes}")
    if expect.quiet and loud:
        misses.append(f"nothing is wrong, yet it warns of {loud}")
    surplus = [code for code in loud if code not in (*expect.codes, *expect.either, *expect.allowed)]
    if (expect.codes or expect.either) and surplus:
        misses.append(f"also warns of {surplus}")
    return misses + [wrong for rule in expect.values for wrong in learned(found, rule)]


def missing(code: str, found: Sequence[Document]) -> str:
    """Say that a code is not there, and what came nearest."""
    same = [entry for entry in found if entry["code"] == code]
    if same:
        return f"{code} is there but only as info (cost {same[0]['cost_ms']} ms, {same[0]['count']} of {same[0]['of']})"
    family = [entry for entry in found if entry["code"].split(".")[0] == code.split(".", maxsplit=1)[0]]
    near = [f"{entry['code']} {entry['severity']} {entry['confidence']}" for entry in family or found]
    return f"{code} is missing; nearest: {', '.join(near) or 'no finding at all'}"


def learned(found: Sequence[Document], rule: Mapping[str, Any]) -> list[str]:
    """Check one learned number."""
    values = [entry["learned"]["value"] for entry in found if entry["code"] == rule["code"] and entry["learned"]]
    if any(abs(value - rule["is"]) <= rule["within"] for value in values):
        return []
    return [f"{rule['code']} learned {values}, truly {rule['is']} ± {rule['within']}"]
