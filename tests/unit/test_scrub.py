# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile

import numpy as np

from netdiag import analysis, tables
from netdiag.document import build
from netdiag.recording.reader import Recording, read
from netdiag.scrub import scrub
from netdiag.testing import RecordingBuilder

SECRETS = [b"api.example.com", b"/home/someone", b"--key", b"203.0.113", b"pod-7", b"abcdef", b"secretive"]


def recording() -> Recording:
    builder = RecordingBuilder(
        command={"argv": ["/home/someone/bin/python3", "--key", "secretive"]},
        target={"names": {"203.0.113.5": "api.example.com"}},
    )
    builder.process(100, exe="/home/someone/bin/python3")
    for number in range(6):
        at = 100.0 * number
        calls = [("send", at + 1, 200), ("receive", at + 41, 900)]
        builder.connection(
            calls, opened=at, closed=("local", at + 52), daddr="203.0.113.5", saddr="10.1.2.3" if number else "10.9.9.9"
        )
    builder.connection([], closed=("local", 700), daddr="2001:db9::1", saddr="::1")
    builder.fact(
        "process",
        pid=100,
        ppid=1,
        exe="/home/someone/bin/python3",
        comm="python3",
        argv=["--key", "secretive"],
        pod="pod-7",
        container="abcdef",
        cgroup="/home/someone",
        libraries=[{"name": "httpx", "version": "1", "evidence": "/home/someone/lib"}],
        started_ns=1,
    )
    builder.fact("coverage", probes=[{"name": "tcp", "state": "partial", "reason": "no /home/someone/x"}])
    builder.fact("command", argv=["/home/someone/bin/python3", "--key", "secretive"], exit_status=0, pid=100)
    builder.fact("loss", probe="tcp", seen=9, lost=0)
    builder.fact("unheard-of", text="secretive")
    return builder.recording(end="command-exited")


def scrubbed(source: Recording) -> bytes:
    with tempfile.TemporaryFile() as file:
        scrub(source, file.fileno())
        file.seek(0)
        return file.read()


def verdict(source: Recording) -> list[tuple[str, int, float | None]]:
    return [(found.code, found.count, found.cost_ms) for found in analysis.run(tables.build(source))]


def test_nothing_that_names_somebody_is_left():
    data = scrubbed(recording())
    assert [secret for secret in SECRETS if secret in data] == []
    copy = read(data)
    assert copy.truncated_at is None
    addresses = {bytes(row) for run in copy.runs["tcp"] for row in run["daddr"]}
    assert not any(row[12:] == bytes([203, 0, 113, 5]) for row in addresses)


def test_the_findings_stay():
    before, after = recording(), read(scrubbed(recording()))
    assert verdict(after) == verdict(before)
    assert verdict(after) != []


def test_times_sizes_and_names_of_programs_stay():
    before, after = recording(), read(scrubbed(recording()))
    for name in ("tcp", "tcp_io", "process"):
        one, two = before.records(name), after.records(name)
        assert one is not None
        assert two is not None
        numbers = [
            field for field in one.dtype.names or () if one.dtype[field].kind in "ui" and one.dtype[field].shape == ()
        ]
        assert numbers
        assert all(np.array_equal(one[field], two[field]) for field in numbers)
    (process, *_) = build(after, tables.build(after), [])["processes"]
    assert process["exe"] == "python3"
    assert process["libraries"] == [{"name": "httpx", "version": "1"}]


def test_an_address_becomes_the_same_one_each_time_and_loopback_stays():
    copy = read(scrubbed(recording()))
    records = copy.records("tcp")
    assert records is not None
    remotes = [bytes(row) for row in records["daddr"]]
    assert len(set(remotes)) == 2
    assert len(set(remotes[:6])) == 1
    assert remotes[0][12:14] == bytes([198, 18])
    assert remotes[6][:4] == bytes.fromhex("20010db8")
    assert bytes(records["saddr"][6]) == bytes(15) + b"\x01"


def test_a_recording_that_breaks_off_has_a_copy_that_is_whole():
    cut = read(RecordingBuilder().connection([], closed=("local", 5)).to_bytes(end=None))
    assert read(scrubbed(cut)).end is None


def test_facts_of_odd_shape_do_no_harm():
    builder = RecordingBuilder(command={"argv": [3]})
    builder.fact("coverage", probes="x", unobservable=[3]).fact("process", pid="x", libraries="y", exe=4)
    builder.fact("command", argv="x")
    facts = read(scrubbed(builder.recording())).facts
    assert [fact["kind"] for fact in facts] == ["coverage", "process", "command"]
