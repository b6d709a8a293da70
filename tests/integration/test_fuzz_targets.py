# SPDX-License-Identifier: Apache-2.0
"""The targets of `scripts/fuzz guided` run: each takes its good inputs, and some that are mangled."""

from __future__ import annotations

import pytest

from netdiag.decode.http.conversation import Conversation, Told
from netdiag.decode.piece import Piece
from scripts._fuzz.targets import TARGETS
from tests.fakes.mangle import mangled


@pytest.mark.fuzz
@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_reads_or_refuses(name: str) -> None:
    target = TARGETS[name]
    seeds = [seed for seed in target.seeds() if seed]
    assert seeds
    for data in (b"", *seeds, *mangled(seeds, 60)):
        target.one(data[: target.longest])


def test_good_conversations_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target whose good inputs were refused at once would test nothing."""
    told: list[Told] = []
    feed = Conversation.feed

    def fed(self: Conversation, piece: Piece) -> list[Told]:
        told.extend(feed(self, piece))
        return []

    monkeypatch.setattr(Conversation, "feed", fed)
    for seed in TARGETS["http-client"].seeds():
        TARGETS["http-client"].one(seed)
    assert len(told) > 3
