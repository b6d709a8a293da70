# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.render.lines import HEAD, lines
from netdiag.testing import START_NS, RecordingBuilder
from netdiag.text import cells


def shown(builder: RecordingBuilder) -> list[str]:
    return list(lines(builder.recording()))


def failed(**members):
    event = {"kind": 2, "time": START_NS + 10**9, "cookie": 9, "family": 2, "role": 1, "tgid": 7, "comm": "curl"}
    return RecordingBuilder().record("tcp", **{**event, "daddr": "192.0.2.1", "dport": 443, **members})


def test_a_closed_connection_is_one_line():
    builder = RecordingBuilder().connection([("send", 2, 2000), ("receive", 5, 300)], closed=("remote", 6))
    (line,) = shown(builder)
    assert " ".join(line.split()) == "0.01 python3[100] 127.0.0.1:8080 remote FIN 0.1 ms 2.00 kB 300 B"


def test_an_open_connection_has_no_line():
    assert shown(RecordingBuilder().connection([("send", 2, 2000)])) == []


@pytest.mark.parametrize(
    ("error", "says"),
    [(111, "refused"), (110, "timed out"), (113, "no route"), (0, "cancelled"), (99, "error 99")],
)
def test_a_failed_one_says_how(error, says):
    (line,) = shown(failed(error=error))
    assert says in line
    assert "–" in line


def test_lines_fit_the_terminal_whatever_the_names():
    rows = [
        *shown(failed(comm="\x1b[31mevil", daddr="2001:db8:1111:2222:3333:4444:5555:6666")),
        *shown(
            RecordingBuilder().connection(
                [("send", 1, 10**9)], closed=("local", 9e6), comm="漢字漢字漢", tgid=4_000_000
            )
        ),
        HEAD,
    ]
    assert all(cells(row) <= 80 for row in rows)
    assert not any("\x1b" in row for row in rows)


@pytest.mark.parametrize("pid", [7, 4_194_303])
@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8:1111:2222:3333:4444:5555:6666"])
def test_pid_and_port_are_whole_whatever_is_cut(pid, address):
    (line,) = shown(failed(comm="a-long-name-too", tgid=pid, daddr=address, dport=44_300))
    assert f"[{pid}]" in line
    assert line.split()[2].endswith(f"{address[-3:]}:44300" if "." in address else f"{address[-3:]}]:44300")


def test_a_flood_is_cut_with_a_number():
    builder = RecordingBuilder()
    for number in range(230):
        builder.record("tcp", kind=3, time=START_NS + number, cookie=number + 1, closed_by=1, close=1)
    rows = shown(builder)
    assert len(rows) == 201
    assert rows[-1].strip() == "and 30 more at once"


def test_without_the_stream_there_is_nothing():
    assert shown(RecordingBuilder()) == []
