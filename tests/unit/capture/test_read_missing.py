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


def resets(*, lost: bool) -> list[tuple[float, bytes]]:
    """Return packets of four connections that are reset behind the answer; `lost`: without its end, or all of it."""
    found: list[tuple[float, bytes]] = []
    for number in range(4):
        talk = p.Talk(client=("10.0.0.1", 40000 + number), server=("10.0.0.2", 80), at=number * 0.5).open()
        talk.say(True, p.REQUEST)
        talk.say(False, BODY, after=0.05, lost=lost and number % 2 == 0)
        talk.say(False, b"x" * 900, after=0.001, lost=lost)
        talk.say(False, flags=p.RST | p.ACK, after=0.02)
        found += talk.packets
    return found


def test_no_reset_is_claimed_to_have_met_an_answer_that_the_file_lacks() -> None:
    assert "tcp.reset" in codes(p.pcap(resets(lost=False)))
    built = table(p.pcap(resets(lost=True)), "connections")
    assert built["unseen"].all()
    assert not table(p.pcap(resets(lost=False)), "connections")["unseen"].any()
    assert [found.severity for found in codes(p.pcap(resets(lost=True))).values() if found.severity != "info"] == []


@pytest.mark.parametrize("seen", ["both", "client"])
def test_no_timer_of_the_client_is_claimed_where_answers_are_not_in_the_file(seen: str) -> None:
    packets: list[tuple[float, bytes]] = []
    for number in range(4):
        talk = p.Talk(client=("10.0.0.1", 40000 + number), server=("10.0.0.2", 80), at=number * 1.0)
        talk.open().say(True, p.REQUEST)
        talk.say(True, flags=p.FIN | p.ACK, after=0.5)
        packets += talk.packets
    port = (80).to_bytes(2, "big")
    kept = [one for one in packets if seen == "both" or one[1][36:38] == port]
    assert len(kept) < len(packets) or seen == "both"
    assert ("retry.client-timeout" in codes(p.pcap(kept))) is (seen == "both")


@pytest.mark.parametrize(
    "name", ["own_openai_sync_stream_conn_per_call", "own_proxy_504_after_2s", "own_sse_plain_stall1.5s"]
)
@pytest.mark.parametrize("client", [True, False])
def test_one_side_of_a_capture_breaks_nothing(name: str, *, client: bool) -> None:
    """Whatever is claimed as critical of packets of one direction alone is claimed of both."""
    whole = load(CAPTURES / f"{name}.pcap")
    asks = next(one.ends for one in whole if one.flags & 0x12 == 2)[1]
    half = pcap([one for one in whole if (one.ends[1] == asks) == client])
    critical = {code for code, found in codes(half).items() if found.severity == "critical"}
    assert critical <= set(codes(pcap(whole)))
