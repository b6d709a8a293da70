# SPDX-License-Identifier: Apache-2.0
"""One row per socket, from its last cumulative record; what became of it, who closed, how long it had been idle.

Pure. Who closed is refined by `closing`, which knows the bursts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netdiag.tables.codes import ERRNO_NAMES, Close, Role, Side, TcpFlags, TcpKind, TcpState
from netdiag.tables.columns import Columns, Floats, Ints, Objects, numbers_or_none
from netdiag.tables.schema import frame, objects

__all__ = ["Sockets", "connections", "listeners", "sockets"]

_FAMILIES = {2: "ipv4", 10: "ipv6"}
_ROLES: Mapping[int, str] = {Role.CLIENT: "client", Role.SERVER: "server"}
_OUTCOMES = {
    0: "cancelled",
    110: "timeout",
    111: "refused",
    104: "reset",
    32: "reset",
    **dict.fromkeys((1, 13, 22, 99, 100, 101, 112, 113), "unreachable"),
}
"""Error of a connect that failed → outcome. A firewall that rejects gives EPERM or EACCES, a blackhole route EINVAL."""
_EADDRNOTAVAIL = 99
_FINAL = (TcpKind.CLOSED, TcpKind.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sockets:
    """The last record of each connection, one row each, in order of time. A socket may have had several of them."""

    last: Columns
    cookies: Ints
    begin: Floats
    """When each connection began: -inf for one older than the trace."""
    opened: Floats
    established: Floats
    kind: Ints
    state: Ints
    flags: Ints

    def rows_of(self, cookies: Ints, at: Floats | None = None) -> Ints:
        """Return the row of each socket's connection at an instant, its last one without; -1 where none is known."""
        if not len(self.cookies):
            return np.full(len(cookies), -1, np.int64)
        order = np.lexsort((self.begin, self.cookies))
        mine = self.cookies[order]
        first, last = np.searchsorted(mine, cookies), np.searchsorted(mine, cookies, side="right") - 1
        known = last >= first
        if at is not None:
            begin = self.begin[order]
            for place in np.flatnonzero(last > first).tolist():  # a socket that connected more than once: rare
                earlier = np.searchsorted(begin[first[place] : last[place] + 1], at[place], side="right") - 1
                last[place] = first[place] + max(earlier, 0)
        return np.where(known, order[np.where(known, last, 0)], -1)

    def between(self, low: int, high: int) -> Sockets:
        """Return the rows from `low` up to `high`."""
        part = slice(low, high)
        return Sockets(
            last=self.last.take(part),
            cookies=self.cookies[part],
            begin=self.begin[part],
            opened=self.opened[part],
            established=self.established[part],
            kind=self.kind[part],
            state=self.state[part],
            flags=self.flags[part],
        )


def sockets(events: Columns) -> Sockets:
    """Pick the last record of each connection; what an earlier record knew and it does not is kept."""
    events = events.take(events.integers("kind") != TcpKind.LISTENER)
    events = events.take(np.lexsort((events.instant("time"), events.integers("cookie"))))
    cookies, time, kind = events.integers("cookie"), events.instant("time"), events.integers("kind")
    order = np.lexsort((time, np.isin(kind, _FINAL), _lives(cookies, events.instant("opened"))))
    events = events.take(order)
    lives = _lives(events.integers("cookie"), events.instant("opened"))
    starts = np.flatnonzero(np.diff(lives, prepend=-1)) if len(lives) else np.zeros(0, np.int64)
    last = np.append(starts[1:], len(lives)) - 1 if len(lives) else starts
    opened, established, seen = (_least(events.instant(name), starts) for name in ("opened", "established", "time"))
    preexisting = events.integers("flags")[last] & TcpFlags.PREEXISTING != 0
    begin = np.where(preexisting, -np.inf, np.where(np.isnan(opened), seen, opened))
    by_time = np.lexsort((events.integers("cookie")[last], seen, begin))
    final = events.take(last[by_time])
    return Sockets(
        last=final,
        cookies=final.integers("cookie"),
        begin=begin[by_time],
        opened=opened[by_time],
        established=established[by_time],
        kind=final.integers("kind"),
        state=final.integers("state"),
        flags=final.integers("flags"),
    )


def _lives(cookies: Ints, opened: Floats) -> Ints:
    """Number the connections of sockets, from records in order of socket and time.

    A socket that is connected anew has another `opened`; a record that does not know it belongs to the one before.
    """
    place = np.arange(len(cookies))
    new = np.diff(cookies, prepend=-1) != 0 if len(cookies) else np.zeros(0, bool)
    known = np.maximum.accumulate(np.where(new | ~np.isnan(opened), place, 0))
    opened = np.nan_to_num(opened[known], nan=-np.inf)
    new[1:] |= opened[1:] != opened[:-1]
    return np.cumsum(new)


def _least(values: Floats, starts: Ints) -> Floats:
    """Return the least known value of each run of rows; NaN where none is known."""
    if not len(starts):
        return np.zeros(0)
    least = np.minimum.reduceat(np.where(np.isnan(values), np.inf, values), starts)
    return np.where(np.isinf(least), np.nan, least)


def connections(found: Sockets, *, hz: float, lossy: bool) -> pd.DataFrame:
    """Return the table of connections without what only bursts and records can tell."""
    last, role = found.last, _mapped(found.last.integers("role"), _ROLES)
    outcome, error = _outcomes(found)
    established = found.established
    length = len(last)
    columns: dict[str, Any] = {
        "id": [f"c{row + 1}" for row in range(length)],
        "cookie": found.cookies,
        "role": role,
        "outcome": outcome,
        "error": error,
        "opened_ns": found.opened,
        "established_ns": established,
        "ended_ns": np.where(np.isin(found.kind, _FINAL), last.instant("time"), np.nan),
        "connect_ms": np.where(role == "client", (established - found.opened) / 1e6, np.nan),
    }
    return frame(
        "connections", length, columns | _owner(last) | _ends(found) | _traffic(last, hz) | _closes(found, lossy=lossy)
    )


def _mapped(values: Ints, names: Mapping[int, str]) -> Objects:
    return objects([names.get(value) for value in values.tolist()])


def _owner(last: Columns) -> dict[str, Any]:
    return {
        "pid": last.known("tgid"),
        "tid": last.known("tid"),
        "comm": last.text("comm"),
        "netns": numbers_or_none(last.integers("netns")),
        "cgroup": numbers_or_none(last.integers("cgroup")),
        "io_pid": last.known("first_io_tgid"),
        "io_tid": last.known("first_io_tid"),
        "io_tids": last.count("io_tids"),
    }


def _ends(found: Sockets) -> dict[str, Any]:
    last, flags = found.last, found.flags
    keepalive: Objects = (flags & TcpFlags.KEEPALIVE != 0).astype(object)
    return {
        "family": _mapped(last.integers("family"), _FAMILIES),
        "protocol": np.where(flags & TcpFlags.MPTCP != 0, "mptcp", "tcp").astype(object),
        "local_ip": last.address("saddr"),
        "local_port": last.known("sport"),
        "remote_ip": last.address("daddr"),
        "remote_port": last.known("dport"),
        "preexisting": flags & TcpFlags.PREEXISTING != 0,
        "shared": flags & TcpFlags.SHARED != 0,
        "never_sent": flags & TcpFlags.NEVER_SENT != 0,
        "keepalive_probes": keepalive,
    }


def _traffic(last: Columns, hz: float) -> dict[str, Any]:
    columns: dict[str, Any] = {
        name: last.count(name)
        for name in (
            "bytes_sent", "bytes_received", "retransmits", "syn_retransmits", "unread", "sends", "receives",
        )
    }  # fmt: skip
    for name in ("first_sent", "last_sent", "first_received", "last_received", "last_read"):
        columns[f"{name}_ns"] = last.instant(name)
    columns["rtt_ms"] = last.known("srtt", 1e-3)
    columns["min_rtt_ms"] = last.known("min_rtt", 1e-3)
    columns["mss"] = last.known("mss")
    columns["zero_window_ms"] = last.count("zero_window") / 1e6
    limited = last.count("rwnd_limited")
    columns["peer_window_ms"] = np.where(limited == 0, 0.0, limited / hz * 1e3)
    return columns


def _outcomes(found: Sockets) -> tuple[Objects, Objects]:
    """Return what became of each connect, and the name of its error."""
    error = found.last.integers("error")
    failed = found.kind == TcpKind.FAILED
    never_sent = found.flags & TcpFlags.NEVER_SENT != 0
    no_port = failed & never_sent & (found.state == TcpState.SYN_SENT) & (found.last.integers("sport") == 0)
    # Between SYN_SENT and the SYN the kernel only picks a local port: without one, none was free.
    error = np.where(no_port & (error == 0), _EADDRNOTAVAIL, error)
    outcome = _mapped(error, _OUTCOMES)
    outcome[outcome == None] = "unreachable"  # noqa: E711 - element by element
    outcome[never_sent & (error == 0)] = "unreachable"
    waiting = ~failed & np.isnan(found.established) & np.isin(found.state, (TcpState.SYN_SENT, TcpState.SYN_RECV))
    outcome[~failed] = "established"
    outcome[waiting & (found.kind == TcpKind.SNAPSHOT)] = "pending"
    names = objects([ERRNO_NAMES.get(value, f"errno {value}") if value else None for value in error.tolist()])
    return outcome, names


def _closes(found: Sockets, *, lossy: bool) -> dict[str, Any]:
    """Return who closed first and how, as the kernel's state machine saw it."""
    last, state = found.last, found.state
    side, how = last.integers("closed_by"), last.integers("close")
    closing, failed = last.instant("closing"), found.kind == TcpKind.FAILED
    # A socket older than the trace whose peer's FIN came before the trace: its end looks like our reset.
    before = (found.flags & TcpFlags.PREEXISTING != 0) & np.isin(state, (TcpState.CLOSE_WAIT, TcpState.LAST_ACK))
    before &= np.isnan(closing) | ((side == Side.LOCAL) & (how == Close.RST))
    side, how = np.where(before, Side.REMOTE, side), np.where(before, Close.FIN, how)
    closing = np.where(before | failed, np.nan, closing)
    closed_by = _mapped(side, {Side.LOCAL: "local", Side.REMOTE: "remote"})
    close = _mapped(how, {Close.FIN: "fin", Close.RST: "rst", Close.TIMEOUT: "timeout"})
    # With events lost, a connection of which only the start is known may have ended long ago.
    known_open = (how == Close.NONE) & ((found.kind == TcpKind.SNAPSHOT) | (not lossy))
    close[known_open] = "open"
    closed_by[failed] = None
    close[failed] = None
    return {
        "closing_ns": closing,
        "closed_by": closed_by,
        "close": close,
        "unread_close": found.flags & TcpFlags.UNREAD_CLOSE != 0,
    }


def listeners(events: Columns) -> pd.DataFrame:
    """Return the first and the last look at each listening socket."""
    looks = events.take(events.integers("kind") == TcpKind.LISTENER)
    cookies, time = looks.integers("cookie"), looks.instant("time")
    order = np.lexsort((time, cookies))
    starts = np.flatnonzero(np.diff(cookies[order], prepend=-1)) if len(order) else np.zeros(0, np.int64)
    ends = np.append(starts[1:], len(order)) - 1 if len(order) else starts
    looks = looks.take(order[np.unique(np.concatenate((starts, ends)))])
    return frame(
        "listeners",
        len(looks),
        {
            "pid": looks.known("tgid"),
            "comm": looks.text("comm"),
            "netns": numbers_or_none(looks.integers("netns")),
            "local_ip": looks.address("saddr"),
            "local_port": looks.known("sport"),
            "at_ns": looks.instant("time"),
            "drops": looks.count("drops"),
            "accept_queue": looks.count("accept_queue"),
            "accept_queue_max": looks.count("accept_queue_max"),
        },
    )
