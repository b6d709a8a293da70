# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.analysis import examine
from netdiag.analysis.stream_stalls import LEAST_MS, limit_ms, usual_ms


@pytest.mark.parametrize(
    ("gaps", "limit"),
    [
        ([20.0] * 40, LEAST_MS),
        ([100.0] * 40, 500.0),
        ([20.0] * 38 + [400.0] * 3, LEAST_MS),
        ([20.0] * 30 + [400.0] * 10, 2000.0),
        ([1200.0], LEAST_MS),
    ],
)
def test_a_stall_is_five_times_what_is_usual_but_never_under_300_ms(gaps, limit):
    assert limit_ms(gaps, len(gaps) - 1) == limit


def test_the_usual_pause_is_the_median():
    assert usual_ms([5.0, 900.0, 20.0]) == 20.0
    assert usual_ms([]) == 0.0


def test_stalls_are_told_by_request_with_their_blame(calls):
    row = calls.connection()
    calls.call(row, 0.0)
    calls.stream(row, 1000.0, [20.0] * 24 + [1200.0] + [20.0] * 14)
    for burst in calls.rows["bursts"][-4:-3]:
        burst |= {"began_ns": burst["began_ns"] + 400e6, "ended_ns": burst["ended_ns"] + 400e6}
    stalls = examine(calls.tables()).stalls
    assert list(stalls) == [1]
    first, second = stalls[1]
    assert (first["blame"], first["gap_ms"], first["at_ms"]) == ("server", pytest.approx(1200), pytest.approx(580))
    assert (second["blame"], second["gap_ms"]) == ("reader", pytest.approx(400))


def stalls(calls, gaps, *, missing=None, lost_at=None, **link):
    """Return the blames of one stream's stalls; `missing` packets before the read after gap number `lost_at`."""
    row = calls.connection(**link)
    calls.call(row, 0.0)
    calls.stream(row, 1000.0, gaps)
    for burst in calls.rows["bursts"]:
        burst["missing"] = float("nan") if missing is None else 0.0
    if lost_at is not None:
        calls.rows["bursts"][-len(gaps) + lost_at]["missing"] = float(missing)
    return [(stall["blame"], stall["why"]) for stall in examine(calls.tables()).stalls[1]]


PAUSE = [20.0] * 20 + [400.0]
FAR = {"rtt_ms": 20.0, "min_rtt_ms": 20.0}


def test_packets_that_were_numbered_and_never_came_are_the_networks(calls):
    ((blame, why),) = stalls(calls, [*PAUSE, *[20.0] * 20], missing=12, lost_at=20)
    assert (blame, why) == ("network", "12 packets of the server never came")


def test_without_any_missing_the_server_stood_still(calls):
    ((blame, why),) = stalls(calls, [*PAUSE, *[20.0] * 20], missing=0)
    assert blame == "server"
    assert "every packet that the server sent came" in why


@pytest.mark.parametrize("missing", [1, 2])
def test_a_packet_lost_after_a_stop_of_the_server_does_not_make_it_the_networks(calls, missing):
    ((blame, why),) = stalls(calls, [*PAUSE, *[20.0] * 20], missing=missing, lost_at=20, **FAR)
    assert blame == "server"
    assert "did not go on as if it had sent meanwhile" in why


@pytest.mark.parametrize("missing", [1, 2])
def test_a_packet_lost_by_a_server_that_went_on_is_the_reason(calls, missing):
    gaps = [*PAUSE, *[0.1] * 15, *[20.0] * 20]
    ((blame, _),) = stalls(calls, gaps, missing=missing, lost_at=20, **FAR)
    assert blame == "network"


def test_the_last_tokens_lost_are_the_networks(calls):
    ((blame, _),) = stalls(calls, PAUSE, missing=2, lost_at=20, **FAR)
    assert blame == "network"


@pytest.mark.parametrize(("link", "blame"), [(FAR, None), ({"rtt_ms": 0.1, "min_rtt_ms": 0.1}, "server")])
def test_a_pause_before_the_end_of_a_long_way_without_numbers_is_nobodys(calls, link, blame):
    ((said, _),) = stalls(calls, PAUSE, **link)
    assert said == blame


def test_a_pause_between_reads_is_the_readers_where_arrivals_are_not_known(calls):
    row = calls.connection()
    calls.call(row, 0.0)
    calls.stream(row, 1000.0, [*PAUSE, *[20.0] * 20])
    for chunk in calls.rows["chunks"]:
        chunk["at_ns"] = float("nan")
    late = calls.rows["bursts"][-20]  # what came right after the pause began was read when it was over
    late["arrived_ns"] = late["began_ns"] - 390e6
    ((said, ms),) = [(s["blame"], s["gap_ms"]) for s in examine(calls.tables()).stalls[1]]
    assert (said, ms) == ("reader", pytest.approx(390))


@pytest.mark.parametrize(("after", "blame"), [([0.1] * 10, "network"), ([20.0] * 40, "server")])
def test_a_pause_right_after_one_by_loss_is_its_recovery(calls, after, blame):
    row = calls.connection(**FAR)
    calls.call(row, 0.0)
    calls.stream(row, 1000.0, [*PAUSE, *[0.1] * 15, 600.0, *after])
    for burst in calls.rows["bursts"]:
        burst["missing"] = 0.0
    calls.rows["bursts"][-16 - len(after) - 1]["missing"] = 12.0
    assert [stall["blame"] for stall in examine(calls.tables()).stalls[1]] == ["network", blame]
