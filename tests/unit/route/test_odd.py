# SPDX-License-Identifier: Apache-2.0
"""How sizes are searched, with a sender that answers from a rule; `tests/kernel/route` sends for real."""

from __future__ import annotations

import pytest

from netdiag.route import odd
from netdiag.route.model import Kind, OddKind, OddProbe
from netdiag.route.prober import OddRequest
from tests.fakes.routes import IP

MOST_SENDS = 20


class Sender:
    """Answers SYNs of up to `limit` bytes; from its `gone`-th call on nothing leaves any more."""

    def __init__(self, limit, gone=MOST_SENDS):
        self.limit, self.gone, self.sent, self.calls = limit, gone, [], 0
        self.told = False

    def send(self, wanted):
        self.calls += 1
        assert self.calls < MOST_SENDS, "it does not end"
        if self.calls >= self.gone:
            return
        for one in wanted:
            reply = Kind.SYN_ACK if one.kind is OddKind.SIZE and one.size <= self.limit else None
            self.sent.append(OddProbe(kind=one.kind, ttl=one.ttl, size=one.size, sent_ns=0, reply=reply))

    def probes(self):
        return tuple(self.sent)

    def _sizes(self):
        return [one for one in self.sent if one.kind is OddKind.SIZE and one.ttl == 64]

    def passed(self):
        return max((one.size for one in self._sizes() if one.reply), default=None)

    def lost(self):
        return min((one.size for one in self._sizes() if one.size > (self.passed() or 0)), default=None)


def plan(sender):
    return odd._plan(OddRequest(ip=IP, raw=True, last_ttl=3), sender)


@pytest.mark.parametrize("limit", [1281, 1333, 1379, 1381, 1436, 1491])
def test_the_limit_is_found_to_four_bytes(limit):
    sender = Sender(limit)
    found = plan(sender)
    assert sender.passed() <= limit < sender.lost()
    assert sender.lost() - sender.passed() <= 4
    near = {(one.ttl, one.size) for one in found if one.kind is OddKind.SIZE and one.ttl < 64}
    assert near == {(ttl, size) for ttl in (1, 2, 3) for size in (sender.passed(), sender.lost())}


def test_it_ends_when_nothing_leaves_any_more():
    sender = Sender(1333, gone=3)
    plan(sender)
    assert sender.calls == 4


def test_where_all_sizes_pass_nothing_is_searched():
    sender = Sender(1500)
    plan(sender)
    assert sender.calls == 1
