# SPDX-License-Identifier: Apache-2.0
"""Mangled courses of TLS connections, many at a time: tables come out, and nothing in them is impossible."""

from __future__ import annotations

import base64
import random
import zlib

import numpy as np
import pytest

from netdiag.decode.kept import redact
from netdiag.recording.reader import Recording, dtype_of
from netdiag.tables import build
from netdiag.testing import START_NS, header, layout
from tests.fakes import handshake as tls
from tests.fakes.mangle import COUNT, mangled

AT_ONCE = 500
SEND, RECEIVE = 1, 2
FULL_13 = [
    (SEND, 22, 512, 1), (RECEIVE, 22, 122, 2), (RECEIVE, 20, 1, 1), (RECEIVE, 23, 1212, 0), (SEND, 20, 1, 1),
    (SEND, 23, 69, 0), (RECEIVE, 23, 250, 0), (RECEIVE, 23, 250, 0), (SEND, 23, 300, 0), (RECEIVE, 23, 900, 0),
    (SEND, 23, 310, 0), (RECEIVE, 23, 16401, 0), (RECEIVE, 23, 500, 0), (SEND, 23, 19, 0),
]  # fmt: skip
RETRIED_13 = [(SEND, 22, 300, 1), (RECEIVE, 22, 88, 2), (SEND, 20, 1, 1), *FULL_13]
FULL_12 = [
    (SEND, 22, 512, 1), (RECEIVE, 22, 90, 2), (RECEIVE, 22, 900, 11), (SEND, 22, 37, 16), (SEND, 20, 1, 1),
    (SEND, 22, 40, 9), (RECEIVE, 22, 202, 4), (RECEIVE, 20, 1, 1), (RECEIVE, 22, 40, 7), (SEND, 23, 300, 0),
    (RECEIVE, 23, 800, 0), (SEND, 21, 26, 0),
]  # fmt: skip
REFUSED = [(SEND, 22, 512, 1), (RECEIVE, 22, 122, 2), (RECEIVE, 23, 1212, 0), (SEND, 21, 2, 2)]
COURSES = (FULL_13, RETRIED_13, FULL_12, REFUSED, FULL_13[9:])
HELLOS = (tls.modern(psk=True), tls.server_hello_13(), tls.flight_12(), tls.server_hello_13(retry=True))


def course(draw):
    """Return records as they pass, or as they do not."""
    records = list(draw.choice(COURSES))
    for _ in range(draw.choice((0, 1, 1, 2, 5))):
        place = draw.randrange(len(records)) if records else 0
        match draw.randrange(6):
            case 0:
                records[place : place + 1] = []
            case 1:
                records.insert(place, draw.choice(FULL_13 + FULL_12))
            case 2:
                records.insert(place, (draw.choice((SEND, RECEIVE)), 1, 0, 0))  # a gap
            case 3:
                draw.shuffle(records)
            case 4 if records:
                side, kind, _, first = records[place]
                records[place] = (side, kind, draw.choice((0, 1, 2, 19, 21, 53, 69, 74, 65535)), first)
            case _:
                numbers = draw.randrange(4), draw.randrange(256), draw.randrange(65536), draw.randrange(256)
                records.insert(place, numbers)
    return records


def recording(draw):
    """Return a recording of many such connections, some of whose messages are there, mangled too."""
    tcp = np.zeros(AT_ONCE, dtype_of(layout("tcp")))
    tcp["cookie"] = np.arange(1, AT_ONCE + 1)
    tcp["opened"] = START_NS
    tcp["established"] = [START_NS + draw.choice((0, 1000, -1)) for _ in range(AT_ONCE)]
    tcp["time"] = START_NS + 10**10
    tcp["kind"] = [draw.choice((2, 3, 4)) for _ in range(AT_ONCE)]
    tcp["role"] = [draw.choice((0, 1, 1, 2)) for _ in range(AT_ONCE)]
    tcp["closed_by"] = [draw.choice((0, 1, 2)) for _ in range(AT_ONCE)]
    tcp["closing"] = np.where(tcp["closed_by"] > 0, START_NS + 10**9, 0)
    tcp["min_rtt"] = [draw.choice((0, 50, 10**6)) for _ in range(AT_ONCE)]
    tcp["dport"], tcp["sport"], tcp["tgid"], tcp["family"] = 443, 4000, 100, 2
    rows = []
    for cookie in range(1, AT_ONCE + 1):
        at = START_NS + 1000
        for side, kind, length, first in course(draw):
            at += draw.choice((0, 1000, 10**6, 10**8))
            rows.append((at, cookie, length, kind, side, first, draw.choice((0, 40, 255)), draw.choice((0, 1, 3, 9))))
    events = np.zeros(len(rows), dtype_of(layout("tls_record")))
    names = ("time", "cookie", "length", "type", "direction", "first", "second", "version")
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        events[name] = values
    facts = [fact(draw, number, data) for number, data in enumerate(mangled(HELLOS, 60, seed=draw.randrange(1 << 30)))]
    runs = {"tcp": [tcp], "tls_record": [events]}
    return Recording(header=header(), layouts={name: layout(name) for name in runs}, runs=runs, facts=facts)


def fact(draw, number, data):
    side, session = draw.choice(("send", "receive")), draw.choice((None, "f2f2f2f2", "x", 7))
    packed = base64.b64encode(zlib.compress(redact(data))).decode()
    members = {"cookie": draw.randrange(1, AT_ONCE), "direction": side, "at_ns": START_NS, "whole": draw.random() < 0.8}
    members |= {"kind": "hello", "session": session, "id": number, "data": packed}
    if draw.random() < 0.2:
        members[draw.choice(("cookie", "data", "at_ns", "direction", "whole"))] = draw.choice(
            (None, "x", -1, 1 << 70, [])
        )
    return members


@pytest.mark.fuzz
def test_no_mangled_course_hurts_the_tables():
    draw = random.Random(5)
    completed = failed = requests = 0
    for _ in range(max(COUNT // AT_ONCE, 1)):
        made = build(recording(draw))
        shakes = made.handshakes
        assert shakes["connection"].is_unique
        assert len(made.connections) == AT_ONCE
        done = shakes["outcome"] == "completed"
        assert set(shakes["outcome"]) <= {"completed", "failed", "unfinished"}
        assert shakes.loc[~done, ["duration_ms", "server_flight_bytes"]].isna().all(axis=None)
        assert shakes.loc[~done, "resumed"].isna().all()
        parts = shakes.loc[done, ["duration_ms", "network_ms", "server_ms", "client_ms"]].fillna(0)
        assert (parts >= 0).all(axis=None)
        records = made.requests[made.requests["source"] == "records"]
        assert (records[["send_ms", "wait_ms", "receive_ms", "total_ms"]].fillna(0) >= 0).all(axis=None)
        assert (records.groupby("connection")["sequence"].max() == records.groupby("connection").size()).all()
        completed, failed, requests = completed + done.sum(), failed + (~done).sum(), requests + len(records)
    assert min(completed, failed, requests) > 0
