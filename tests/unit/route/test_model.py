# SPDX-License-Identifier: Apache-2.0
"""The model holds facts: frozen, small to copy, with every enum a word that JSON can carry."""

from __future__ import annotations

import dataclasses
from enum import StrEnum

import pytest

from netdiag.route import model
from netdiag.route.model import Clock, Kind, Matched, Probe, Reply

CLASSES = [getattr(model, name) for name in model.__all__ if dataclasses.is_dataclass(getattr(model, name))]
ENUMS = [getattr(model, name) for name in model.__all__ if not dataclasses.is_dataclass(getattr(model, name))]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_facts_cannot_be_changed(kind):
    assert kind.__dataclass_params__.frozen
    assert "__slots__" in vars(kind)


@pytest.mark.parametrize("kind", ENUMS, ids=lambda kind: kind.__name__)
def test_words_are_lower_case_and_told_apart(kind):
    assert issubclass(kind, StrEnum)
    assert all(word == word.lower() and " " not in word for word in kind)


def test_a_probe_without_answer_is_silent_and_counts():
    probe = Probe(flow=0, ttl=3, round=0, attempt=0, sent_ns=1)
    assert probe.reply is None
    assert not probe.warm_up
    assert not probe.far


def test_a_reply_knows_no_more_than_it_was_told():
    reply = Reply(kind=Kind.RST, ip="192.0.2.1", rtt_ms=1.0, clock=Clock.USER, matched=Matched.SOCKET)
    assert (reply.code, reply.ttl, reply.mtu, reply.quote, reply.labels, reply.copies) == (
        None,
        None,
        None,
        None,
        (),
        0,
    )
