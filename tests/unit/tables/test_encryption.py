# SPDX-License-Identifier: Apache-2.0
"""TLS is told by what only TLS does, plain text by the absence of it, and doubt stays doubt."""

from __future__ import annotations

import pytest

from netdiag.tables import build
from netdiag.testing import RecordingBuilder

PLAIN = [("send", 1, 180), ("receive", 20, 900), ("send", 30, 182), ("receive", 50, 900)]
TOGETHER = [("send", 1, 364), ("receive", 2, 1380), ("send", 4, 450), ("receive", 30, 513)]
TLS13 = [("send", 1, 517), ("receive", 2, 2100), ("send", 3, 80), ("send", 4.5, 300), ("receive", 50, 900)]
TLS12 = [
    ("send", 1, 517),
    ("receive", 2, 1500),
    ("send", 3, 93),
    ("receive", 4, 258),
    ("send", 5, 300),
    ("receive", 9, 9),
]
RESUMED12 = [("send", 1, 517), ("receive", 2, 147), ("send", 3, 51), ("receive", 50, 900)]
SPLIT = [("send", 1, 250), ("receive", 2, 1400), ("send", 3, 6), ("send", 4.2, 74), ("receive", 50, 900)]
CONNECT = [("send", 1, 120), ("receive", 2, 39), *[(side, at + 5, size) for side, at, size in TLS13]]


def encrypted(calls, **members):
    return build(RecordingBuilder().connection(calls, **members).recording()).connections["encrypted"].tolist()[0]


@pytest.mark.parametrize("calls", [TLS13, TLS12, RESUMED12, SPLIT, CONNECT])
def test_a_finished_message_after_a_hello_is_tls(calls):
    assert encrypted(calls) is True


def test_a_read_of_a_header_alone_is_tls():
    builder = RecordingBuilder().connection([("send", 1, 517)])
    builder.call(1, "receive", 5, 900, first_bytes=5, calls=4)
    assert build(builder.recording()).connections["encrypted"].tolist() == [True]


@pytest.mark.parametrize(("role", "port"), [(1, {"dport": 443}), (2, {"sport": 443})])
def test_the_port_of_https_is_tls(role, port):
    assert encrypted(PLAIN, role=role, **port) is True


@pytest.mark.parametrize(
    "calls",
    [
        PLAIN,
        PLAIN[:2],
        [("send", 1, 78), ("receive", 2, 900), ("send", 3, 80), ("receive", 4, 900)],
        [("send", 1, 140), ("receive", 2, 900), ("send", 3, 126), ("receive", 4, 400), ("send", 5, 126)],
    ],
)
def test_what_shows_no_sign_is_plain(calls):
    assert encrypted(calls) is False


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [("send", 1, 517)],
        [("send", 1, 517), ("receive", 2, 7)],
        [("send", 1, 517), ("receive", 2, 1400), ("send", 3, 24)],
        TOGETHER,
        [*TOGETHER, ("send", 60, 370), ("receive", 90, 513)],
        [("send", 1, 130), ("receive", 2, 900), ("send", 3, 80000), ("receive", 4, 400)],
    ],
    ids=["nothing", "no answer", "refused", "given up", "a Finished with the request", "and more", "another size"],
)
def test_what_may_be_either_stays_unknown(calls):
    assert encrypted(calls) is None


def test_the_middle_of_a_conversation_stays_unknown():
    assert encrypted(PLAIN, flags=1) is None


def test_the_other_end_on_this_machine_knows():
    builder = RecordingBuilder().connection(TLS13)
    mirrored = [("receive", 1, 517), ("send", 2, 2100), ("receive", 3, 380), ("send", 50, 900)]
    builder.connection(mirrored, role=2, sport=8080, dport=40001)
    assert build(builder.recording()).connections["encrypted"].tolist() == [True, True]


@pytest.mark.parametrize(
    ("classes", "calls", "known"),
    [([1], PLAIN, True), ([2], TLS13, False), ([3], TLS13, False), ([4, 1], PLAIN, True), ([4], PLAIN, False),
     ([5], PLAIN, False), ([5], TLS13, True)],
)  # fmt: skip
def test_the_wire_needs_no_signs(classes, calls, known):
    builder = RecordingBuilder().connection(calls)
    for at, value in enumerate(classes):
        builder.wire(1, "send", at, 0, first=value)
    assert build(builder.recording()).connections["encrypted"].tolist() == [known]


def test_a_connect_that_failed_said_nothing_to_judge():
    builder = RecordingBuilder().record("tcp", cookie=7, kind=2, state=2, role=1, error=111, dport=443)
    assert build(builder.recording()).connections["encrypted"].tolist() == [None]
