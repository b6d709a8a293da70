# SPDX-License-Identifier: Apache-2.0
"""What the file lacks did not fail: no verdict rests on packets that were not captured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.captures.mangler import Packet, load, pcap
from tests.fakes import packets as p
from tests.unit.capture.capturing import codes, table

CAPTURES = Path(__file__).resolve().parents[2] / "captures"
BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 1000
PARTS = ("connect_ms", "client_setup_ms", "tls_ms", "send_ms", "wait_ms", "receive_ms", "unattributed_ms")


def capture(name: str, keep: Callable[[int, Packet], bool] = lambda _, __: True) -> bytes:
    return pcap([one for number, one in enumerate(load(CAPTURES / f"{name}.pcap")) if keep(number, one)])


@pytest.mark.parametrize("name", ["own_requests_get_loop_tls13", "own_aiohttp_expiry15_gap16"])
@pytest.mark.parametrize("client", [True, False])
def test_of_a_connection_seen_from_one_side_no_handshake_failed_and_no_request_was_unanswered(
    name: str, *, client: bool
) -> None:
    data = capture(name, lambda _, one: (one.ends[0] > one.ends[1]) == client)
    assert "failed" not in set(table(data, "handshakes")["outcome"])
    assert not (table(data, "requests")["complete"] == False).any()  # noqa: E712 - cells are objects
    assert "tls.handshake-failed" not in codes(data)
    assert "retry.attempts" not in codes(data)


def test_of_a_handshake_that_the_snap_length_cut_nothing_failed() -> None:
    whole = load(CAPTURES / "own_tls12_full_then_ticket_resume.pcap")
    for size in (68, 96, 200):
        data = pcap([Packet(one.at_ns, one.data[:size], one.passed) for one in whole])
        assert "failed" not in set(table(data, "handshakes")["outcome"]), size


@pytest.mark.parametrize(("last", "complete"), [("fin", True), ("acknowledged", True), ("reset", False)])
def test_the_end_of_an_answer_that_passed_and_is_not_in_the_file_is_not_missing(last: str, *, complete: bool) -> None:
    talk = p.Talk(server=("10.0.0.2", 80)).open().ask(p.REQUEST, BODY)
    if last != "reset":
        talk.say(False, b"x" * 1000, after=0.001, lost=True)
    if last == "fin":
        talk.say(False, flags=p.FIN | p.ACK, after=0.001)
    else:
        talk.say(True, after=0.001)
    talk.say(False, flags=p.RST, after=0.1)
    [row] = table(talk.file(), "requests").itertuples()
    assert (row.status, row.complete) == (200, complete)


@pytest.mark.parametrize("skipped", range(6))
def test_the_parts_of_a_request_add_up_wherever_the_file_begins(skipped: int) -> None:
    for name in ("own_tls12_full_then_ticket_resume", "own_requests_session_10req_1conn"):
        for row in table(capture(name, lambda number, _: number >= skipped), "requests").to_dict("records"):
            known = sum(row[part] for part in PARTS if row[part] == row[part])
            assert known == pytest.approx(row["total_ms"], abs=0.01)
