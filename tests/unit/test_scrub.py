# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import tempfile
import zlib

import numpy as np
import pytest

from netdiag import analysis, tables
from netdiag.decode import tls
from netdiag.document import build
from netdiag.recording.reader import Recording, read
from netdiag.scrub import scrub
from netdiag.testing import RecordingBuilder
from tests.fakes import handshake

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


# --- names in hellos ----------------------------------------------------------------------------------------------


def hello(data: bytes, **members: object) -> dict[str, object]:
    packed = base64.b64encode(zlib.compress(data)).decode()
    return {"cookie": 1, "direction": "send", "at_ns": 5, "whole": True, "session": "ab", "data": packed} | members


def hellos_after(*facts: dict[str, object]) -> list[dict[str, object]]:
    builder = RecordingBuilder()
    for fact in facts:
        builder.fact("hello", **fact)
    return [dict(fact) for fact in read(scrubbed(builder.recording())).facts_of("hello")]


def text(fact: dict[str, object]) -> bytes:
    return zlib.decompress(base64.b64decode(str(fact["data"])))


def named(name: bytes) -> bytes:
    entry = handshake.vector(b"\0" + handshake.vector(name, 2), 2)
    return handshake.client_hello([(0, entry), (43, handshake.vector(handshake.numbers(0x0304), 1))])


def test_how_certificates_lead_to_each_other_stays_and_what_is_no_chain_goes():
    chain = [[900, 1, 2, True], [800, 2, 3, False]]
    good, bad = hellos_after(
        hello(handshake.flight_12(), id=1, chain=chain), hello(handshake.flight_12(), id=2, chain=["api.example.com"])
    )
    assert (good["chain"], "chain" in bad) == (chain, False)


def test_names_in_hellos_become_others_and_all_else_stays():
    first, again, second = hellos_after(
        hello(named(b"api.example.com"), id=1),
        hello(named(b"api.example.com"), id=2),
        hello(named(b"b.example.com"), id=3),
    )
    before, after = (tls.read(data).client_hellos[0] for data in (named(b"api.example.com"), text(first)))
    assert text(first) == text(again) != text(second)
    assert after.sni == "h1xxxxx.invalid"
    assert tls.read(text(second)).client_hellos[0].sni == "h2xxx.invalid"
    assert {**_members(before), "sni": None} == {**_members(after), "sni": None}
    assert (first["session"], first["whole"], first["id"]) == ("ab", True, 1)


def _members(found: tls.ClientHello) -> dict[str, object]:
    return {name: getattr(found, name) for name in found.__slots__}


def test_no_part_of_a_name_is_left_wherever_the_hello_breaks_off():
    name = b"secretive.example.com"
    data = named(name)
    for fact in hellos_after(*(hello(data[:length]) for length in range(1, len(data) + 1))):
        assert "data" not in fact or not any(name[at : at + 4] in text(fact) for at in range(len(name) - 3))


@pytest.mark.parametrize(
    "data",
    [
        handshake.client_hello([(0, handshake.vector(b"\0\0\3one\0\0\3two", 2))]),
        handshake.client_hello([(0, handshake.vector(b"\0" + handshake.vector(b"caf\xe9.example", 2), 2))]),
    ],
)
def test_what_names_more_than_one_server_or_oddly_is_dropped(data):
    (fact,) = hellos_after(hello(data))
    assert "data" not in fact


def test_what_follows_a_message_of_unknown_kind_is_dropped():
    (fact,) = hellos_after(hello(named(b"a.example.com") + b"\xee\0\0\4" + named(b"b.example.com")))
    assert [one.sni for one in tls.read(text(fact)).client_hellos] == ["h1xxx.invalid"]
    assert b"example" not in text(fact)


@pytest.mark.parametrize("data", [None, 3, "!", "AAAA", ["x"]])
def test_hellos_of_odd_shape_lose_their_text_alone(data):
    (fact,) = hellos_after({**hello(b""), "data": data, "id": "x", "same": [1]})
    assert {"data", "id", "same"} & set(fact) == set()
    assert fact["cookie"] == 1


def test_a_hello_that_repeats_another_still_does():
    one, two = hellos_after(hello(handshake.server_hello_13(), id=4), {"cookie": 2, "direction": "send", "same": 4})
    assert text(one) == handshake.server_hello_13()
    assert two["same"] == 4
