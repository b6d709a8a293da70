# SPDX-License-Identifier: Apache-2.0
"""What was learned of connections, as the records and facts that the kernel programs and the recorder write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netdiag.capture.flows import Flow, Flows, Sorted
from netdiag.capture.layouts import rows
from netdiag.capture.outline import outline
from netdiag.capture.sequence import Order
from netdiag.capture.walker import Record
from netdiag.decode.hello_facts import HelloFacts
from netdiag.decode.kept import messages, redact
from netdiag.decode.tls import read
from netdiag.recording.reader import Records
from netdiag.tables.codes import Close, Direction, IoFlags, Role, Side, TcpFlags, TcpKind, TcpState

__all__ = ["Hellos", "bursts", "connections", "record_rows", "resent_rows", "unseen"]

Ints = NDArray[np.int64]

_BURST_GAP_NS = 1_000_000
"""As in the kernel program: calls, here packets, with shorter pauses are one burst."""
_ECONNRESET, _ETIMEDOUT, _ECONNREFUSED = 104, 110, 111
_FIRST_WAIT_NS = 1_000_000_000
"""What a SYN waits for before it is sent again; then twice as long each time (RFC 6298)."""
_AF_INET, _AF_INET6 = 2, 10
_MAPPED = bytes(10) + b"\xff\xff"
_MAX_WORD = 0xFFFFFFFF
_MAX_KNOWN = 4096
JIFFIES_A_SECOND = 1000
"""In which the time that the peer's window was shut is told."""


def bursts(s: Sorted, order: Order, client: Ints) -> Records:
    """Return the runs of packets with new data; `client` is the client's direction of each connection of the batch."""
    index = np.flatnonzero(order.new > 0)
    run, time, new = s.run[index], s.time[index], order.new[index]
    send = s.direction[index] == client[run]
    fresh = np.ones(len(index), bool)
    fresh[1:] = (run[1:] != run[:-1]) | (send[1:] != send[:-1]) | (time[1:] - time[:-1] >= _BURST_GAP_NS)
    starts = np.flatnonzero(fresh)
    ends = np.append(starts[1:], len(index)) - 1 if len(starts) else starts
    table = rows("tcp_io", len(starts))
    if not len(starts):
        return table
    table["time"] = table["ended"] = time[ends]
    table["began"] = time[starts]
    table["cookie"] = s.flow[index][starts] + 1
    table["bytes"] = np.minimum(np.add.reduceat(new, starts), _MAX_WORD)
    table["calls"] = ends - starts + 1
    table["first_bytes"] = np.minimum(new[starts], _MAX_WORD)
    table["direction"] = np.where(send[starts], Direction.SEND, Direction.RECEIVE)
    last = np.append(run[starts][1:] != run[starts][:-1], True)
    table["flags"] = np.where(last, IoFlags.CONTINUED, 0)  # the next batch may hold more of it
    return table


def resent_rows(resent: Sequence[tuple[int, int, int, int]], flows: Flows) -> Records:
    """Return segments that were sent again, by either side."""
    table = rows("tcp_io", len(resent))
    if resent:
        numbers = np.array(resent, np.int64)
        table["time"] = table["began"] = table["ended"] = numbers[:, 2]
        table["cookie"] = numbers[:, 0] + 1
        table["bytes"] = table["first_bytes"] = np.minimum(numbers[:, 3], _MAX_WORD)
        table["calls"] = 1
        table["direction"] = Direction.RETRANSMIT
        client = np.array([max(flows.all[number].client, 0) for number, *_ in resent], np.int64)
        table["flags"] = np.where(numbers[:, 1] == client, 0, IoFlags.PEER)
    return table


def record_rows(found: Sequence[tuple[int, bool, Record]]) -> Records:
    """Return TLS record headers: number of the connection, whether the client sent it, the record."""
    table = rows("tls_record", len(found))
    if found:
        columns = np.array([(number + 1, 2 - send, *record) for number, send, record in found], np.int64)
        names = ("cookie", "direction", "time", "type", "length", "first", "second", "version", "flags")
        for name, values in zip(names, columns.T, strict=True):
            table[name] = values
    return table


def connections(flows: Flows, end_ns: int) -> Records:
    """Return the last word on every connection."""
    everyone = flows.all
    table = rows("tcp", len(everyone))
    if not everyone:
        return table
    client = np.array([max(flow.client, 0) for flow in everyone], np.int64)
    row, other = np.arange(len(everyone)), 1 - client
    for name, values in (("sent", client), ("received", other)):
        table[f"bytes_{name}"] = flows.bytes[row, values]
        table[f"first_{name}"] = flows.first[row, values]
        table[f"last_{name}"] = flows.last[row, values]
    opening = np.array([max(flow.syns - 1, 0) + max(flow.answers - 1, 0) for flow in everyone], np.int64)
    table["retransmits"] = flows.resent[row, 0] + flows.resent[row, 1] + opening
    table["min_rtt"], table["srtt"] = _round_trips(flows, client)
    table["cookie"] = row + 1
    columns = [_one(flow, end_ns) for flow in everyone]
    for name, numbers in zip(_ONE, zip(*columns, strict=True), strict=True):
        table[name] = np.array(numbers, np.int64)
    for name, side in (("saddr", 0), ("daddr", 1)):
        packed = b"".join(flow.ends[side if flow.client <= 0 else 1 - side][0] for flow in everyone)
        table[name] = np.frombuffer(packed, np.uint8).reshape(-1, 16)
    return table


def unseen(flows: Flows) -> list[int]:
    """Return the cookies of connections of whose server's bytes the file lacks some, or all as far as it shows."""
    found = []
    for flow in flows.all:
        server = 1 - max(flow.client, 0)
        asked = flows.bytes[flow.number, 1 - server] > 0
        passed = flows.passed(flow.number, server)
        if (asked and passed < 0) or passed > flows.bytes[flow.number, server]:
            found.append(flow.number + 1)
    return found


_ONE = (
    "time", "opened", "established", "closing", "zero_window", "rwnd_limited", "syn_retransmits", "mss", "error",
    "sport", "dport", "family", "kind", "state", "role", "closed_by", "close", "flags",
)  # fmt: skip


def _one(flow: Flow, end_ns: int) -> tuple[int, ...]:
    client = max(flow.client, 0)
    kind, state, error, at = _fate(flow, end_ns)
    preexisting = not flow.syns and not flow.answers
    ours, theirs = flow.ends[client], flow.ends[1 - client]
    shut = [
        flow.zero[side] + (max(flow.last_ns - flow.zero_since[side], 0) if flow.zero_since[side] else 0)
        for side in (client, 1 - client)
    ]
    closed = kind != TcpKind.FAILED and flow.closing >= 0
    return (
        at,
        flow.syn_ns,
        flow.established_ns,
        flow.closing_ns if closed else 0,
        shut[0],
        min(shut[1] * JIFFIES_A_SECOND // 1_000_000_000, _MAX_WORD),
        max(flow.syns - 1, 0),
        flow.segment,
        error,
        ours[1],
        theirs[1],
        _AF_INET if ours[0][:12] == _MAPPED else _AF_INET6,
        kind,
        state,
        Role.CLIENT if flow.sure else Role.UNKNOWN,
        (Side.LOCAL if flow.closing == client else Side.REMOTE) if closed else Side.NONE,
        (Close.RST if flow.reset else Close.FIN) if closed else Close.NONE,
        (TcpFlags.PREEXISTING if preexisting else 0) | (TcpFlags.KEEPALIVE if flow.probed else 0),
    )


def _fate(flow: Flow, end_ns: int) -> tuple[int, int, int, int]:
    """Return kind, state, error and instant of the last word on a connection."""
    if flow.refused and not flow.established_ns:
        return TcpKind.FAILED, TcpState.CLOSE, _ECONNREFUSED, flow.ended_ns
    unanswered = flow.syns > 0 and not flow.answer_ns and not flow.established_ns
    if unanswered and flow.barred:
        return TcpKind.FAILED, TcpState.SYN_SENT, flow.barred, max(flow.barred_ns, flow.last_syn_ns)
    if unanswered and (flow.ended_ns or _gave_up(flow, end_ns)):
        return TcpKind.FAILED, TcpState.SYN_SENT, _ETIMEDOUT if flow.syns > 1 else 0, flow.last_ns
    if unanswered:
        return TcpKind.SNAPSHOT, TcpState.SYN_SENT, 0, end_ns
    return _standing(flow, end_ns)


def _standing(flow: Flow, end_ns: int) -> tuple[int, int, int, int]:
    """Return the same for a connection that was established."""
    client = max(flow.client, 0)
    theirs = flow.reset and flow.closing != client
    if flow.ended_ns:
        return TcpKind.CLOSED, TcpState.CLOSE, _ECONNRESET if theirs else 0, flow.ended_ns
    if flow.closing_ns:
        state = TcpState.FIN_WAIT2 if flow.closing == client else TcpState.CLOSE_WAIT
        return TcpKind.SNAPSHOT, state, 0, end_ns
    return TcpKind.SNAPSHOT, TcpState.ESTABLISHED, 0, end_ns


def _gave_up(flow: Flow, end_ns: int) -> bool:
    """Tell whether the next SYN was due long before the file ends."""
    due = flow.last_syn_ns - flow.syn_ns + _FIRST_WAIT_NS
    return flow.replaced or end_ns - flow.last_syn_ns > due * 3 // 2 + _FIRST_WAIT_NS


def _round_trips(flows: Flows, client: Ints) -> tuple[Ints, Ints]:
    """Return the least and the usual round trip in µs, 0 where none was seen: of the opening, and of time stamps.

    A stamp's way to the server and back and that of one the other way add up to a round trip, wherever captured.
    """
    opening = np.array(
        [
            flow.established_ns - flow.last_syn_ns if flow.last_syn_ns and flow.established_ns else 0
            for flow in flows.all
        ],
        np.int64,
    )
    row, other = np.arange(len(client)), 1 - client
    both = (flows.fastest[row, client] > 0) & (flows.fastest[row, other] > 0)
    least = np.where(both, flows.fastest[row, client] + flows.fastest[row, other], 0)
    opening = np.maximum(opening, 0)
    least = np.where((opening > 0) & ((least == 0) | (opening < least)), opening, least)
    count = flows.echoes[row, client]
    mean = np.where(
        both & (count > 0), flows.echo_ns[row, client] // np.maximum(count, 1) + flows.fastest[row, other], least
    )
    usual = np.maximum(mean, least)
    return _micros(least), _micros(usual)


def _micros(values: Ints) -> Ints:
    return np.minimum(np.where(values > 0, np.maximum(values // 1000, 1), 0), _MAX_WORD)


class Hellos:
    """Handshake messages in the clear as facts, cut to what may be kept; each different text once."""

    def __init__(self, *, keep_names: bool = False) -> None:
        self.keep_names = keep_names
        self.facts: list[dict[str, Any]] = []
        self.names: dict[int, str] = {}
        """By number of the connection: the host name that its client asked for, in lower case."""
        self._cuts: dict[bytes, bytes] = {}
        self._told = HelloFacts(self._cut)

    def _cut(self, hello: bytes) -> bytes:
        key = outline(hello)
        if key is None:
            return redact(hello)
        found = self._cuts.get(key)
        if found is None:
            if len(self._cuts) >= _MAX_KNOWN:
                self._cuts.clear()
            found = self._cuts[key] = redact(hello)
        return found

    def say(self, flow: Flow, send: bool, raw: bytes, at_ns: int, whole: bool) -> None:  # noqa: FBT001
        """Take the TLS records of one side with handshake messages."""
        hello = messages(raw)
        fact, data = self._told.fact(
            hello, cookie=flow.number + 1, direction="send" if send else "receive", at_ns=at_ns, whole=whole
        )
        self.facts.append({"kind": "hello", **fact})
        if send and self.keep_names:
            found = next((one.sni for one in read(data).client_hellos if one.sni), None)
            if found is not None:
                self.names[flow.number] = found.lower()
