# SPDX-License-Identifier: Apache-2.0
"""Cuts a long recording: into parts of whole connections, or a stretch of time out of it. Pure.

A part holds all of its connections and nothing of the others, so its tables hold the rows that the whole's would. A
stretch is what a trace would have recorded that ran only then: connections that were open before are older than it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netdiag.recording.reader import Recording, Records, dtype_of
from netdiag.tables.codes import Direction, RecordType, TcpFlags, TcpKind, WireClass

__all__ = ["LONG", "Cut", "is_long", "part", "parts_of", "rest_of", "stretch"]

LONG = 400_000
"""So many records of connections are examined at once at most, as tables and as objects."""
PART = 60_000
"""About so many are in a part."""
_BOUND = ("tcp", "tcp_io", "tls_record", "tls_call", "http_request", "http_chunk")
"""Streams whose records belong to a connection or a conversation."""
_BY_PROCESS = ("name_lookup", "dns_message")
_MOST_PARTS = 4096
_OF_THE_WHOLE = frozenset({"packet", "coverage", "loss", "cost", "plaintext"})

Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Which part each record belongs to."""

    recording: Recording
    places: Mapping[str, Sequence[Ints]]
    """For each run of a stream the part of each record; -1: of none."""
    cookies: Mapping[int, int]
    """Connection to part."""
    conversations: Mapping[int, int]
    """Conversation that is bound to no connection, to part."""
    pids: tuple[frozenset[int], ...]
    """The processes of each part."""

    @property
    def count(self) -> int:
        """How many parts there are."""
        return len(self.pids)


def is_long(recording: Recording) -> bool:
    """Tell whether a recording is to be worked on in parts; captures say for themselves how they are read."""
    if recording.header["tier"] == "capture":
        return False
    return sum(len(run) for stream in _BOUND for run in recording.runs.get(stream, ())) > LONG


def parts_of(recording: Recording, size: int = PART) -> Cut:
    """Return a cut into parts of about `size` records; connections of a process to one address stay neighbours."""
    counts: dict[int, int] = {}
    bound = _bound(recording)
    for stream, runs in _bound_runs(recording):
        for run in runs:
            _count(counts, _looked_up(run["conversation"], bound) if stream == "http_chunk" else run["cookie"])
    counts.pop(0, None)
    owners = _owners(recording)
    nobody = (0, b"", 0)
    part, filled, at = {}, 0, 0
    pids: list[set[int]] = [set()]
    for cookie in sorted(counts, key=lambda cookie: (owners.get(cookie, nobody), cookie)):
        if filled and filled + counts[cookie] > size and at < _MOST_PARTS - 1:
            at, filled = at + 1, 0
            pids.append(set())
        part[cookie] = at
        pids[at].add(owners.get(cookie, nobody)[0])
        filled += counts[cookie]
    conversations = _unbound(recording, pids)
    places = {stream: [_places(stream, run, part, conversations, bound) for run in runs]
              for stream, runs in _bound_runs(recording)}  # fmt: skip
    cut = Cut(
        recording=recording,
        places=places,
        cookies=part,
        conversations=conversations,
        pids=tuple(map(frozenset, pids)),
    )
    _place_nameless(cut)
    return cut


def _bound_runs(recording: Recording) -> Iterator[tuple[str, list[Records]]]:
    """Yield the streams whose records name a connection or a conversation."""
    for stream in _BOUND:
        key = "conversation" if stream == "http_chunk" else "cookie"
        runs = recording.runs.get(stream, [])
        if runs and key in (runs[0].dtype.names or ()):
            yield stream, runs


def _places(
    stream: str, run: Records, part: Mapping[int, int], conversations: Mapping[int, int], bound: Mapping[int, int]
) -> Ints:
    if stream in {"http_chunk", "http_request"}:
        told = {number: part.get(cookie, -1) for number, cookie in bound.items()} | dict(conversations)
        places = _looked_up(run["conversation"], told, -1)
        if stream == "http_request":
            named = _looked_up(run["cookie"], part, -1)
            places = np.where(places < 0, named, places)
        return places.astype(np.int16)
    return _looked_up(run["cookie"], part, -1).astype(np.int16)


def _place_nameless(cut: Cut) -> None:
    """Give calls of TLS libraries that name no socket to their process's part, where it is in one alone."""
    alone: dict[int, int] = {}
    for number, mine in enumerate(cut.pids):
        for pid in mine:
            alone[pid] = -1 if pid in alone else number
    runs = cut.recording.runs.get("tls_call", [])
    for run, places in zip(runs, cut.places.get("tls_call", ()), strict=False):
        nameless = run["cookie"] == 0
        if nameless.any() and "tgid" in (run.dtype.names or ()):
            places[nameless] = _looked_up(run["tgid"][nameless], alone, -1)


def _count(counts: dict[int, int], cookies: NDArray[Any]) -> None:
    found, many = np.unique(cookies, return_counts=True)
    for cookie, count in zip(found.tolist(), many.tolist(), strict=True):
        counts[cookie] = counts.get(cookie, 0) + count


def _owners(recording: Recording) -> dict[int, tuple[int, bytes, int]]:
    """Return process, address and port of each connection."""
    found: dict[int, tuple[int, bytes, int]] = {}
    for run in recording.runs.get("tcp", ()):
        names = run.dtype.names or ()
        if not {"cookie", "tgid", "daddr", "dport"} <= set(names):
            continue
        columns = (run["cookie"].tolist(), run["tgid"].tolist(), list(run["daddr"]), run["dport"].tolist())
        found |= {cookie: (pid, bytes(address), port) for cookie, pid, address, port in zip(*columns, strict=True)}
    return found


def _bound(recording: Recording) -> dict[int, int]:
    """Return the connection of each conversation, 0 where it is not known."""
    return {
        fact["conversation"]: fact.get("cookie") or 0
        for fact in recording.facts
        if fact["kind"] == "conversation" and isinstance(fact.get("conversation"), int)
    }


def _looked_up(numbers: NDArray[Any], table: Mapping[int, int], default: int = 0) -> Ints:
    told, where = np.unique(numbers, return_inverse=True)
    return np.array([table.get(one, default) for one in told.tolist()], np.int64)[where.reshape(-1)]


def _unbound(recording: Recording, pids: list[set[int]]) -> dict[int, int]:
    """Return the part of conversations of which no connection is known: that of their process where it is in one."""
    places: dict[int, set[int]] = {}
    for place, mine in enumerate(pids):
        for pid in mine:
            places.setdefault(pid, set()).add(place)
    found = {}
    for fact in recording.facts:
        number, cookie = fact.get("conversation"), fact.get("cookie")
        if fact["kind"] == "conversation" and isinstance(number, int) and not cookie:
            there = places.get(fact.get("pid", -1), set())
            found[number] = next(iter(there)) if len(there) == 1 else len(pids)
    if len(pids) in found.values():
        pids.append(set())
    return found


# --- parts ------------------------------------------------------------------------------------------------------------


def part(cut: Cut, number: int) -> Recording:
    """Return one part: its connections' records and facts, and what its processes looked up."""
    recording = cut.recording
    runs: dict[str, list[Records]] = {}
    for stream, places in cut.places.items():
        for run, place in zip(recording.runs[stream], places, strict=True):
            kept = place == number
            if kept.any():
                runs.setdefault(stream, []).append(run if kept.all() else run[kept])
    pids = np.array(sorted(cut.pids[number]), np.int64)
    for stream in _BY_PROCESS:
        for run in recording.runs.get(stream, ()):
            kept = np.isin(run["tgid"], pids)
            if kept.any():
                runs.setdefault(stream, []).append(run[kept])
    return replace(recording, runs=runs, facts=[fact for fact in recording.facts if _belongs(fact, cut, number)])


def _belongs(fact: Mapping[str, Any], cut: Cut, number: int) -> bool:
    kind, cookie = fact["kind"], fact.get("cookie")
    if kind == "conversation" and not cookie:
        return cut.conversations.get(fact.get("conversation", -1)) == number
    if kind in {"hello", "conversation", "inside"} and isinstance(cookie, int):
        # the first hello of its kind stands for later ones of other connections, too
        return cut.cookies.get(cookie) == number or (kind == "hello" and "same" not in fact)
    return kind not in _OF_THE_WHOLE


def rest_of(recording: Recording) -> Recording:
    """Return what belongs to no connection: processes, look-ups, listeners, and the facts about them."""
    runs = {stream: list(mine) for stream, mine in recording.runs.items() if stream not in _BOUND}
    listeners = [run[run["kind"] == TcpKind.LISTENER] for run in recording.runs.get("tcp", ())]
    runs["tcp"] = [run for run in listeners if len(run)]
    facts = [fact for fact in recording.facts if fact["kind"] not in {"hello", "conversation", "packet", "strings"}]
    return replace(recording, runs=runs, facts=facts)


# --- stretches --------------------------------------------------------------------------------------------------------


def stretch(recording: Recording, began_ns: int, ended_ns: int, plain: Ints | None = None) -> Recording:
    """Return what a trace from one instant to another (CLOCK_MONOTONIC) would have recorded.

    Times stay those of the whole recording: they count from its start. What a connection speaks shows in its first
    bytes: that is taken over from before, and `plain` are connections of which the whole recording tells that they are
    not encrypted.
    """
    runs: dict[str, list[Records]] = {}
    for stream, mine in recording.runs.items():
        if stream == "tcp":
            continue
        for run in mine:
            kept = _within(stream, run, began_ns, ended_ns)
            if kept.any():
                runs.setdefault(stream, []).append(run[kept])
    ends = _ends(recording, runs, began_ns, ended_ns)
    if len(ends):
        runs["tcp"] = [ends]
    if plain is not None and len(ends):
        _say_plain(recording, runs, ends, plain, began_ns)
    facts = recording.facts
    if began_ns > recording.start_ns:  # of conversations that go on the beginning was not seen
        facts = [{**fact, "whole": False} if fact["kind"] == "conversation" else fact for fact in facts]
    last = recording.end
    if last is None or int(last["at_ns"]) > ended_ns:
        last = {"exit_reason": "stretch", "at_ns": ended_ns}
    return replace(recording, runs=runs, facts=facts, end=last, truncated_at=None, truncated_why=None)


def _within(stream: str, run: Records, began_ns: int, ended_ns: int) -> NDArray[np.bool_]:
    """Tell which records a stretch holds: those of its time, and what is known of processes and protocols before."""
    if "time" not in (run.dtype.names or ()):
        return np.zeros(len(run), bool)
    at = run["time"].astype(np.int64)
    kept: NDArray[np.bool_] = at < ended_ns
    if stream == "process":
        return kept
    later = at >= began_ns
    if stream == "tls_record" and "type" in (run.dtype.names or ()):
        later |= run["type"] == RecordType.CLASS
    return kept & later


def _say_plain(recording: Recording, runs: dict[str, list[Records]], ends: Records, plain: Ints, began_ns: int) -> None:
    """Note of older connections that are not encrypted what they speak, where their first bytes do not tell it."""
    layout = recording.layouts.get("tls_record")
    if layout is None:
        return
    told = [run["cookie"][run["type"] == RecordType.CLASS] for run in runs.get("tls_record", ())]
    older = ends["cookie"][ends["opened"].astype(np.int64) < began_ns].astype(np.int64)
    silent = np.setdiff1d(np.intersect1d(older, plain), np.concatenate([np.zeros(0, np.int64), *told]))
    said = np.zeros(len(silent), dtype_of(layout))
    said["cookie"], said["time"] = silent, began_ns
    said["type"], said["first"], said["direction"] = RecordType.CLASS, WireClass.HTTP1, Direction.SEND
    if len(said):
        runs.setdefault("tls_record", []).insert(0, said)


def _ends(recording: Recording, runs: Mapping[str, list[Records]], began_ns: int, ended_ns: int) -> Records:
    """Return the connections of a stretch as its last look at them would show them."""
    told = [run for run in recording.runs.get("tcp", ()) if len(run)]
    if not told:
        return np.zeros(0, np.void)
    active = {stream: runs.get(stream, []) for stream in ("tcp_io", "tls_record")}
    there = np.unique(np.concatenate([np.zeros(0, np.int64), *(
        run["cookie"].astype(np.int64) for mine in active.values() for run in mine
    )]))  # fmt: skip
    found = []
    for run in told:
        at, opened = run["time"].astype(np.int64), run["opened"].astype(np.int64)
        within = (at >= began_ns) & (at < ended_ns)
        kept = within | (np.isin(run["cookie"].astype(np.int64), there) & (opened < ended_ns))
        if kept.any():
            found.append(np.array(run[kept]))
    if not found:
        return told[0][:0]
    ends = np.concatenate(found)
    later = ends["time"].astype(np.int64) >= ended_ns
    if later.any():
        _take_back(ends, later, active["tcp_io"], ended_ns)
    before = ends["opened"].astype(np.int64) < began_ns
    flags = ends["flags"]
    flags[before] = flags[before] | flags.dtype.type(TcpFlags.PREEXISTING)
    return np.asarray(ends)


_LATER = ("closing", "first_sent", "last_sent", "first_received", "last_received", "last_read", "closed_by", "close",
          "error", "unread", "zero_window", "rwnd_limited", "retransmits")  # fmt: skip


def _take_back(ends: Records, later: NDArray[np.bool_], io: list[Records], ended_ns: int) -> None:
    """Make looks that came after the stretch such as came at its end: what they count of later is not known."""
    for name in _LATER:
        if name in (ends.dtype.names or ()):
            ends[name][later] = 0
    ends["kind"][later] = TcpKind.SNAPSHOT
    ends["time"][later] = ended_ns
    ends["state"][later] = 1
    for name, calls, direction in (("bytes_sent", "sends", 1), ("bytes_received", "receives", 2)):
        moved: dict[int, tuple[int, int]] = {}
        for run in io:
            mine = run[run["direction"] == direction]
            keys, where = np.unique(mine["cookie"], return_inverse=True)
            sizes = np.bincount(where.reshape(-1), mine["bytes"], len(keys))
            counts = np.bincount(where.reshape(-1), mine["calls"], len(keys))
            for key, size, count in zip(keys.tolist(), sizes.tolist(), counts.tolist(), strict=True):
                old = moved.get(key, (0, 0))
                moved[key] = (old[0] + int(size), old[1] + int(count))
        told = [moved.get(cookie, (0, 0)) for cookie in ends["cookie"][later].tolist()]
        ends[name][later] = [size for size, _ in told]
        ends[calls][later] = [count for _, count in told]
